package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/podcondition"
)

// API is what the scheduler asks of the cluster.
type API interface {
	Follow(ctx context.Context, target podapi.Target, options metav1.ListOptions, sink podapi.Sink) error
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.CreateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, options metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, options metav1.DeleteOptions) (runtime.Object, error)
}

// Recorder writes events about objects; it never waits for them to be stored.
type Recorder interface {
	Event(about kinds.Object, eventType, reason, message string)
}

// Controller keeps a State up to date, decides about every pod in it that has no node,
// and binds.
type Controller struct {
	api      API
	recorder Recorder
	clock    clock.Clock
	log      *slog.Logger
	inbox    chan input
	// outbox holds decisions that are to be carried out.
	outbox chan verdict
}

// binders is how many decisions may be carried out at once.
const binders = 16

// New is a scheduler that has not begun; see Run.
func New(api API, recorder Recorder, clk clock.Clock, log *slog.Logger) *Controller {
	return &Controller{
		api: api, recorder: recorder, clock: clk, log: log,
		inbox: make(chan input), outbox: make(chan verdict, binders),
	}
}

// input changes what the scheduler believes.
type input func(*State)

// verdict is a decision about a pod.
type verdict struct {
	pod *corev1.Pod
	Decision
}

// Run schedules until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	for kind, sink := range c.sinks(ctx) {
		parts.Go(func() { _ = c.api.Follow(ctx, podapi.Target{Kind: kindOf(kind)}, metav1.ListOptions{}, sink) })
	}
	for range binders {
		parts.Go(func() { c.carryOutAll(ctx) })
	}
	state := NewState()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-c.inbox:
			change(state)
			c.schedule(ctx, state)
		}
	}
}

// sinks are what the scheduler follows.
func (c *Controller) sinks(ctx context.Context) map[string]podapi.Sink {
	return map[string]podapi.Sink{
		"nodes":                         sink[*corev1.Node]{ctx: ctx, inbox: c.inbox, replace: replaceNodes, set: (*State).SetNode, remove: removeNode},
		"pods":                          sink[*corev1.Pod]{ctx: ctx, inbox: c.inbox, replace: replacePods, set: (*State).SetPod, remove: (*State).RemovePod},
		"namespaces":                    plain(ctx, c.inbox, setNamespace, removeNamespace),
		"persistentvolumeclaims":        plain(ctx, c.inbox, setClaim, removeClaim),
		"persistentvolumes":             plain(ctx, c.inbox, setVolume, removeVolume),
		"storageclasses.storage.k8s.io": plain(ctx, c.inbox, setClass, removeClass),
		"poddisruptionbudgets.policy":   plain(ctx, c.inbox, setBudget, removeBudget),
	}
}

// schedule decides about every pod that can be decided about now. While the binders are
// busy it takes in what has changed.
func (c *Controller) schedule(ctx context.Context, state *State) {
	for pod := state.Next(); pod != nil; pod = state.Next() {
		decision := Decide(pod, state.World())
		switch decision.Outcome {
		case Bind:
			state.Place(pod, decision.Node)
		case Preempt:
			state.Wait(pod)
			state.Nominate(pod, decision.Node, decision.Victims)
		case Wait, Provision:
			state.Wait(pod)
		case Skip:
		case Gated:
			continue
		}
		for sent := false; !sent; {
			select {
			case <-ctx.Done():
				return
			case change := <-c.inbox:
				change(state)
			case c.outbox <- verdict{pod, decision}:
				sent = true
			}
		}
	}
}

// carryOutAll carries out decisions until ctx ends.
func (c *Controller) carryOutAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-c.outbox:
			switch next.Outcome {
			case Bind:
				c.bind(ctx, next.pod, next.Node)
			case Wait:
				c.refused(ctx, next.pod, next.Message, "")
			case Preempt:
				c.preempt(ctx, next)
			case Provision:
				c.provision(ctx, next)
			case Skip:
				c.recorder.Event(next.pod, corev1.EventTypeWarning, "FailedScheduling", next.Message)
			case Gated:
			}
		}
	}
}

// refused tells why the pod stays pending, once per reason, and which node is kept for it
// unless that is empty.
func (c *Controller) refused(ctx context.Context, pod *corev1.Pod, message, nominated string) {
	condition := podcondition.Find(pod, corev1.PodScheduled)
	if condition != nil && condition.Message == message && nominated == "" {
		return
	}
	c.recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", message)
	status := map[string]any{"conditions": []map[string]any{{
		"type": corev1.PodScheduled, "status": corev1.ConditionFalse,
		"reason": corev1.PodReasonUnschedulable, "message": message,
	}}}
	if nominated != "" {
		status["nominatedNodeName"] = nominated
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, err = c.api.Patch(ctx, target(pod, "status"), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		c.log.WarnContext(ctx, "could not say why a pod is pending", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
}

// preempt asks the victims to go, as gracefully as they want to, and keeps the node.
func (c *Controller) preempt(ctx context.Context, next verdict) {
	for _, victim := range next.Victims {
		if victim.DeletionTimestamp != nil {
			continue
		}
		if err := c.evict(ctx, victim); err != nil && !apierrors.IsNotFound(err) {
			c.log.WarnContext(ctx, "could not preempt a pod", "pod", victim.Namespace+"/"+victim.Name, "error", err)
			c.sendBack(ctx, func(state *State) { state.Spare(victim.UID) })
			continue
		}
		c.recorder.Event(victim, corev1.EventTypeNormal, "Preempted", fmt.Sprintf("Preempted by pod %s on node %s", next.pod.UID, next.Node))
	}
	c.refused(ctx, next.pod, next.Message, next.Node)
}

// evict marks a victim as disrupted, and deletes it.
func (c *Controller) evict(ctx context.Context, victim *corev1.Pod) error {
	disrupted := podcondition.Disruption(corev1.PodReasonPreemptionByScheduler,
		"default-scheduler: preempting to accommodate a higher priority pod")
	patch, err := podcondition.Patch(victim, "", &disrupted, c.clock.Now())
	if err == nil && patch != nil {
		_, err = c.api.Patch(ctx, target(victim, "status"), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return err
	}
	_, err = c.api.Delete(ctx, target(victim, ""), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
	return err
}

// provision tells claims of the node of their first consumer.
func (c *Controller) provision(ctx context.Context, next verdict) {
	for _, claim := range next.Claims {
		if claim.Annotations[selectedNode] == next.Node {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": claim.UID, "annotations": map[string]string{selectedNode: next.Node},
		}})
		if err == nil {
			where := podapi.Target{Kind: kindOf("persistentvolumeclaims"), Namespace: claim.Namespace, Name: claim.Name}
			_, err = c.api.Patch(ctx, where, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			c.log.WarnContext(ctx, "could not choose a node for a claim", "claim", claim.Namespace+"/"+claim.Name, "error", err)
		}
	}
}

// bind stores one decision. A refused one is taken back: a pod that is gone, deleting
// or bound by someone else (API-80) is dropped, any other is decided about again.
func (c *Controller) bind(ctx context.Context, pod *corev1.Pod, node string) {
	_, err := c.api.Create(ctx, target(pod, "binding"), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	name := pod.Namespace + "/" + pod.Name
	if err == nil {
		c.recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned "+name+" to "+node)
		return
	}
	c.log.WarnContext(ctx, "binding refused", "pod", name, "node", node, "error", err)
	again := !apierrors.IsNotFound(err) && !apierrors.IsConflict(err)
	c.sendBack(ctx, func(state *State) {
		state.Free(pod.UID)
		if again {
			state.Reconsider(pod)
		}
	})
}

func (c *Controller) sendBack(ctx context.Context, change input) {
	select {
	case <-ctx.Done():
	case c.inbox <- change:
	}
}

func target(pod *corev1.Pod, subresource string) podapi.Target {
	return podapi.Target{Kind: kindOf("pods"), Namespace: pod.Namespace, Name: pod.Name, Subresource: subresource}
}

func kindOf(resource string) kinds.Kind {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		panic("no kind " + resource) // the table of kinds has lost a row
	}
	return kind
}

// sink passes what a Follow sees to the scheduler's loop.
type sink[T kinds.Object] struct {
	ctx     context.Context //nolint:containedctx // Follow's, and ends with it
	inbox   chan<- input
	replace func(*State, []T)
	set     func(*State, T)
	remove  func(*State, T)
}

// Replace implements podapi.Sink.
func (s sink[T]) Replace(items []kinds.Object, _ string) {
	typed := make([]T, 0, len(items))
	for _, item := range items {
		if obj, ok := item.(T); ok {
			typed = append(typed, obj)
		}
	}
	s.send(func(state *State) { s.replace(state, typed) })
}

// Apply implements podapi.Sink.
func (s sink[T]) Apply(event watch.Event) {
	obj, ok := event.Object.(T)
	if !ok {
		return
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		s.send(func(state *State) { s.set(state, obj) })
	case watch.Deleted:
		s.send(func(state *State) { s.remove(state, obj) })
	case watch.Bookmark, watch.Error:
	}
}

func (s sink[T]) send(change input) {
	select {
	case <-s.ctx.Done():
	case s.inbox <- change:
	}
}

// plain is a sink for a kind of which only the present state counts.
func plain[T kinds.Object](ctx context.Context, inbox chan<- input, set, remove func(*State, T)) podapi.Sink {
	known := map[types.NamespacedName]T{}
	key := func(obj T) types.NamespacedName {
		return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	return sink[T]{
		ctx: ctx, inbox: inbox,
		replace: func(state *State, items []T) {
			listed := map[types.NamespacedName]T{}
			for _, item := range items {
				listed[key(item)] = item
				set(state, item)
			}
			for where, item := range known {
				if _, there := listed[where]; !there {
					remove(state, item)
				}
			}
			known = listed
		},
		set: func(state *State, obj T) {
			known[key(obj)] = obj
			set(state, obj)
		},
		remove: func(state *State, obj T) {
			delete(known, key(obj))
			remove(state, obj)
		},
	}
}
