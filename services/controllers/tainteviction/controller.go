package tainteviction

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

const (
	workers = 8
	// maxTries is how often a deletion is tried, with retryPause in between.
	maxTries   = 5
	retryPause = 10 * time.Millisecond
)

// Controller keeps the times at which pods are to be deleted.
type Controller struct {
	api      control.API
	clock    clock.Clock
	recorder control.Recorder
	log      *slog.Logger
	pods     *view.Copy[*corev1.Pod]
	nodes    *view.Copy[*corev1.Node]
	loop     *loop.Loop[view.Key]
	counts   evictionMetrics

	mu        sync.Mutex
	schedules map[view.Key]schedule
}

// schedule is when a pod is to be deleted. done says that the deletion was requested.
type schedule struct {
	uid  types.UID
	at   time.Time
	done bool
}

// New returns a controller; Run does the work.
func New(base control.Base) *Controller {
	c := &Controller{
		api: base.API, clock: base.Clock, recorder: base.Events("taint-eviction-controller"), log: base.Log,
		pods:      view.Of[*corev1.Pod](base.Views, "pods"),
		nodes:     view.Of[*corev1.Node](base.Views, "nodes"),
		schedules: map[view.Key]schedule{}, counts: newCounts(base.Metrics),
	}
	view.IndexByNode(c.pods)
	c.loop = loop.New(loop.Config{Name: "noexec_taint_pod", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.sync)
	c.pods.OnChange(c.podChanged)
	c.nodes.OnChange(c.nodeChanged)
	return c
}

// Run evicts pods until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) podChanged(old, now *corev1.Pod) {
	switch {
	case now == nil:
		c.loop.Add(view.KeyOf(old))
	case AffectsEviction(old, now):
		c.loop.Add(view.KeyOf(now))
	}
}

func (c *Controller) nodeChanged(old, now *corev1.Node) {
	if now == nil { // one that gets its name later has not had its taints yet
		for _, pod := range view.BoundTo(c.pods, old.Name) {
			c.set(view.KeyOf(pod), schedule{})
		}
		return
	}
	var before []corev1.Taint
	if old != nil {
		before = NoExecuteTaints(old.Spec.Taints)
	}
	if slices.EqualFunc(before, NoExecuteTaints(now.Spec.Taints), func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }) {
		return
	}
	for _, pod := range view.BoundTo(c.pods, now.Name) {
		c.loop.Add(view.KeyOf(pod))
	}
}

// sync decides about one pod, and deletes it when it is due.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	now := c.clock.Steady()
	pod, there := c.pods.Get(key)
	if !there {
		c.set(key, schedule{})
		return nil
	}
	known := c.scheduleOf(key, pod.UID)
	node, found := c.nodes.Get(view.Key{Name: pod.Spec.NodeName})
	if !found {
		c.set(key, schedule{})
		return nil
	}
	switch decision := Decide(pod.Spec.Tolerations, node.Spec.Taints, known.at, now); decision.Outcome {
	case Cancel:
		c.recordCancellation(pod, known)
		c.set(key, schedule{})
		return nil
	case Schedule:
		if known.done {
			return nil
		}
		if known.at.After(now) {
			c.recordCancellation(pod, known)
		}
		known = schedule{uid: pod.UID, at: decision.At}
		c.set(key, known)
	case Keep:
	}
	if known.done {
		return nil
	}
	if wait := known.at.Sub(now); wait > 0 {
		c.loop.AddAfter(key, wait)
		return nil
	}
	known.done = true
	c.set(key, known)
	c.evict(ctx, pod, known.at)
	return nil
}

// scheduleOf returns the schedule of the pod with this UID.
func (c *Controller) scheduleOf(key view.Key, uid types.UID) schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.schedules[key]; known.uid == uid {
		return known
	}
	return schedule{}
}

func (c *Controller) set(key view.Key, next schedule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next == (schedule{}) {
		delete(c.schedules, key)
		return
	}
	c.schedules[key] = next
}

// recordCancellation writes the event that a scheduled deletion was cancelled.
func (c *Controller) recordCancellation(pod *corev1.Pod, known schedule) {
	if !known.at.IsZero() && !known.done {
		c.recorder.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod "+pod.Namespace+"/"+pod.Name)
	}
}

// evict marks the pod as disrupted and deletes it like any other client (CTL-06). due is when the
// deletion was due.
func (c *Controller) evict(ctx context.Context, pod *corev1.Pod, due time.Time) {
	c.recorder.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod "+pod.Namespace+"/"+pod.Name)
	var err error
	for range maxTries {
		if err = c.remove(ctx, pod); err == nil || apierrors.IsNotFound(err) {
			if err == nil {
				c.counts.deleted(c.clock.Steady().Sub(due))
			}
			return
		}
		if c.clock.Sleep(ctx, retryPause) != nil {
			return
		}
	}
	c.log.WarnContext(ctx, "could not evict a pod", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
}

func (c *Controller) remove(ctx context.Context, pod *corev1.Pod) error {
	target := podapi.Target{Kind: c.pods.Kind(), Namespace: pod.Namespace, Name: pod.Name}
	disrupted := podcondition.Disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	patch, err := podcondition.Patch(pod, "", &disrupted, c.clock.Now())
	if err != nil {
		return err
	}
	if patch != nil {
		status := target
		status.Subresource = "status"
		if _, err := c.api.Patch(ctx, status, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	_, err = c.api.Delete(ctx, target, metav1.DeleteOptions{})
	return err
}
