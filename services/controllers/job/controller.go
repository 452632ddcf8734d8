package job

import (
	"context"
	"errors"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Controller runs Jobs.
type Controller struct {
	jobs     *view.Copy[*batchv1.Job]
	pods     *view.Copy[*corev1.Pod]
	writes   control.Resource[*batchv1.Job]
	podsOf   control.Pods
	clock    clock.Clock
	loop     *loop.Loop[view.Key]
	orphans  *loop.Loop[view.Key]
	expected *workload.Expectations
	memory   memory
}

// The workers are upstream's, as is how long a Job waits for more to happen to its pods.
const (
	workers = 5
	batch   = time.Second
)

// New is the controller of Jobs.
func New(base control.Base) *Controller {
	c := &Controller{
		jobs:   view.Of[*batchv1.Job](base.Views, "jobs.batch"),
		pods:   view.Of[*corev1.Pod](base.Views, "pods"),
		writes: control.Of[*batchv1.Job](base.API, "jobs.batch"),
		podsOf: control.Pods{Resource: control.Of[*corev1.Pod](base.API, "pods"), Events: base.Events("job-controller")},
		clock:  base.Clock, expected: workload.NewExpectations(), memory: memory{known: map[view.Key]*recollection{}},
	}
	c.loop = loop.New(loop.Config{Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.orphans = loop.New(loop.Config{Clock: base.Clock, Log: base.Log}, c.syncOrphan)
	c.jobs.On(c.jobChanged)
	c.pods.On(c.podChanged)
	return c
}

// Run runs Jobs until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return daemon.Run(ctx, c.loop.Run, c.orphans.Run)
}

func (c *Controller) jobChanged(old, now *batchv1.Job) {
	key := view.KeyOf(view.Either(old, now))
	switch {
	case now == nil, Over(now):
		for _, pod := range c.pods.Controlled(view.Either(old, now).UID) {
			if Orphaned(pod, now) {
				c.orphans.Add(view.KeyOf(pod))
			}
		}
		c.loop.Add(key)
	case old != nil && old.Generation == now.Generation:
		c.loop.AddAfter(key, batch)
	default:
		c.loop.Add(key)
	}
}

func (c *Controller) podChanged(old, now *corev1.Pod) {
	touch := workload.Touched(c.jobs.Kind().GroupVersionKind, old, now)
	pod := view.Either(old, now)
	if now != nil && Tracked(now) && touch.Owner == nil && touch.Former == nil && metav1.GetControllerOfNoCopy(now) == nil {
		c.orphans.Add(view.KeyOf(now))
	}
	if touch.Former != nil {
		c.loop.AddAfter(view.Key{Namespace: pod.Namespace, Name: touch.Former.Name}, batch)
	}
	if touch.Owner != nil {
		c.ownPodChanged(pod, now, touch)
	}
	if !touch.Orphan {
		return
	}
	for _, job := range c.jobs.In(pod.Namespace) {
		if selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			c.loop.Add(view.KeyOf(job))
		}
	}
}

// ownPodChanged is podChanged for a pod that says whose it is.
func (c *Controller) ownPodChanged(pod, now *corev1.Pod, touch workload.Touch) {
	key := view.Key{Namespace: pod.Namespace, Name: touch.Owner.Name}
	job, ok := c.jobs.Get(key)
	if !ok || job.UID != touch.Owner.UID {
		if now != nil && Tracked(now) {
			c.orphans.AddAfter(view.KeyOf(now), batch)
		}
		if ok {
			return
		}
	}
	if ok && now != nil && Orphaned(now, job) {
		c.orphans.Add(view.KeyOf(now))
	}
	if touch.Came && !touch.Left {
		c.expected.Created(key)
	}
	if touch.Left {
		c.expected.Deleted(key, pod.UID)
	}
	if now == nil || !Tracked(now) {
		c.memory.seen(key, pod.UID)
	}
	c.loop.AddAfter(key, batch)
}

// sync looks at one Job.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	job, ok := c.jobs.Get(key)
	if !ok {
		c.expected.Forget(key)
		c.memory.forget(key)
		return nil
	}
	if Over(job) || (job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName) {
		return nil
	}
	now := c.clock.Now()
	v := View{Job: job, Stale: !c.expected.Met(key, now)}
	if v.Stale {
		c.loop.AddAfter(key, c.expected.Left(key, now)+time.Second)
	}
	pods, err := c.claim(ctx, job)
	if err != nil {
		return err
	}
	v.Pods = pods
	v.Failures, v.Freed = c.memory.of(key, job.UID)
	plan := Decide(v, now)
	for _, event := range plan.Tell {
		c.podsOf.Events.Event(job, event.Type, event.Reason, event.Message)
	}
	failed := c.carryOut(ctx, job, &plan)
	if len(plan.Delete) > 0 && failed != nil {
		return failed // a Job is not over while a pod could not be deleted
	}
	if err := c.count(ctx, job, plan); err != nil {
		return errors.Join(failed, err)
	}
	if plan.Again > 0 {
		c.loop.AddAfter(key, plan.Again)
	}
	return failed
}

func (c *Controller) claim(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, err
	}
	return control.Claimer[*corev1.Pod]{
		Objects: c.podsOf.Resource, Owner: job, OwnerKind: c.jobs.Kind().GroupVersionKind, Selector: selector,
		Fresh:      func(ctx context.Context) (kinds.Object, error) { return c.writes.Get(ctx, job.Namespace, job.Name) },
		Finalizers: []string{Finalizer},
	}.Claim(ctx, append(c.pods.Controlled(job.UID), c.pods.Orphans(job.Namespace)...))
}

// carryOut makes and deletes pods. What could not be made does not run.
func (c *Controller) carryOut(ctx context.Context, job *batchv1.Job, plan *Plan) error {
	key := view.KeyOf(job)
	switch {
	case len(plan.Delete) > 0:
		uids := make([]types.UID, 0, len(plan.Delete))
		for _, pod := range plan.Delete {
			uids = append(uids, pod.UID)
		}
		c.expected.Deletions(key, uids, c.clock.Now())
		return control.AtOnce(len(plan.Delete), func(i int) error {
			err := c.podsOf.Remove(ctx, job, plan.Delete[i])
			if err != nil {
				c.expected.Deleted(key, plan.Delete[i].UID)
			}
			if control.Gone(err) {
				return nil
			}
			return err
		}, func() {})
	case len(plan.Create) > 0:
		n := len(plan.Create)
		c.expected.Creations(key, n, c.clock.Now())
		made, err := control.SlowStart(n, func(i int) error {
			_, err := c.podsOf.Make(ctx, job, plan.Create[i])
			return err
		})
		for range n - made {
			c.expected.Created(key)
		}
		plan.Status.Active -= int32(n - made)
		if control.Closing(err) {
			return nil
		}
		return err
	}
	return nil
}

// count stores what is to be counted, lets go of the pods, and stores the numbers.
func (c *Controller) count(ctx context.Context, job *batchv1.Job, plan Plan) error {
	key := view.KeyOf(job)
	stored, err := c.store(ctx, job, plan.Status)
	if err != nil {
		return err
	}
	c.memory.remember(key, job.UID, plan.Failures)
	var mu sync.Mutex
	var freed []*corev1.Pod
	failed := control.AtOnce(len(plan.Free), func(i int) error {
		pod := plan.Free[i]
		c.memory.free(key, job.UID, pod.UID)
		if err := c.free(ctx, pod); err != nil && !control.Gone(err) {
			c.memory.seen(key, pod.UID)
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		freed = append(freed, pod)
		return nil
	}, func() {})
	settled, event := Settle(plan, freed, c.clock.Now())
	if _, err := c.store(ctx, stored, settled); err != nil {
		return errors.Join(failed, err)
	}
	if event.Reason != "" {
		c.podsOf.Events.Event(job, event.Type, event.Reason, event.Message)
	}
	return failed
}

// store stores a status that says something new.
func (c *Controller) store(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) (*batchv1.Job, error) {
	if equality.Semantic.DeepEqual(job.Status, status) {
		return job, nil
	}
	changed := job.DeepCopy()
	changed.Status = status
	return c.writes.UpdateStatus(ctx, changed)
}

// free takes the finalizer off a pod.
func (c *Controller) free(ctx context.Context, pod *corev1.Pod) error {
	_, err := c.podsOf.Strategic(ctx, pod, "", map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{Finalizer},
	}})
	return err
}

// syncOrphan lets go of a pod that no Job will count.
func (c *Controller) syncOrphan(ctx context.Context, key view.Key) error {
	pod, ok := c.pods.Get(key)
	if !ok || !Tracked(pod) {
		return nil
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "Job" {
		job, there := c.jobs.Get(view.Key{Namespace: pod.Namespace, Name: owner.Name})
		if there && job.UID == owner.UID && !Orphaned(pod, job) {
			return nil
		}
	}
	if err := c.free(ctx, pod); err != nil && !control.Gone(err) {
		return err
	}
	return nil
}

// memory is what is known of Jobs and in no object: the failures of their pods, and the pods
// that were let go of and are still in the view with their finalizer.
type memory struct {
	mu    sync.Mutex
	known map[view.Key]*recollection
}

type recollection struct {
	job      types.UID
	failures Failures
	freed    map[types.UID]bool
}

func (m *memory) at(key view.Key, job types.UID) *recollection {
	if m.known[key] == nil || m.known[key].job != job {
		m.known[key] = &recollection{job: job, freed: map[types.UID]bool{}}
	}
	return m.known[key]
}

func (m *memory) of(key view.Key, job types.UID) (Failures, map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.at(key, job)
	freed := make(map[types.UID]bool, len(known.freed))
	for uid := range known.freed {
		freed[uid] = true
	}
	return known.failures, freed
}

func (m *memory) remember(key view.Key, job types.UID, failures Failures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key, job).failures = failures
}

func (m *memory) free(key view.Key, job, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key, job).freed[pod] = true
}

// seen notes that the view shows a pod without its finalizer, or no more, or that it has kept
// it.
func (m *memory) seen(key view.Key, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.known[key]; known != nil {
		delete(known.freed, pod)
	}
}

func (m *memory) forget(key view.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}
