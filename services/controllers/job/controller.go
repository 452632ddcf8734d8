package job

import (
	"context"
	"errors"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	jobs       *view.Copy[*batchv1.Job]
	namespaces *view.Copy[*corev1.Namespace]
	writes     control.Resource[*batchv1.Job]
	owners     control.Owners[*batchv1.Job]
	clock      clock.Clock
	loop       *loop.Loop[view.Key]
	orphans    *loop.Loop[view.Key]
	memory     *Memory
	metrics    jobMetrics
}

// workers is upstream's number.
const workers = 5

// Batch is how long a Job waits for further changes of its pods, as upstream does.
const Batch = time.Second

// New returns the controller of Jobs.
func New(base control.Base) *Controller {
	c := &Controller{
		jobs:       view.Of[*batchv1.Job](base.Views, "jobs.batch"),
		namespaces: view.Of[*corev1.Namespace](base.Views, "namespaces"),
		writes:     control.Of[*batchv1.Job](base.API, "jobs.batch"),
		clock:      base.Clock, memory: NewMemory(), metrics: newCounts(base.Metrics),
	}
	c.loop = loop.New(loop.Config{Name: "job", Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.orphans = loop.New(loop.Config{Name: "job_orphan_pod", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.syncOrphan)
	c.owners = control.Owners[*batchv1.Job]{
		Kind: c.jobs.Kind().GroupVersionKind, Get: c.jobs.Get, In: c.jobs.InNamespace, Enqueue: c.loop.AddAfter, Batch: Batch,
		Selector: func(job *batchv1.Job) *metav1.LabelSelector { return job.Spec.Selector },
		Fresh: func(ctx context.Context, key view.Key) (kinds.Object, error) {
			return c.writes.Get(ctx, key.Namespace, key.Name)
		},
		Pods: view.Of[*corev1.Pod](base.Views, "pods"), Clock: base.Clock, Expected: workload.NewExpectations(),
		Writes:     control.Pods{Resource: control.Of[*corev1.Pod](base.API, "pods"), Events: base.Events("job-controller")},
		Finalizers: []string{Finalizer},
	}
	c.jobs.OnChange(c.jobChanged)
	c.namespaces.OnChange(c.namespaceChanged)
	c.owners.Pods.OnChange(c.podChanged)
	return c
}

// Run runs Jobs until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return daemon.Run(ctx, c.loop.Run, c.orphans.Run)
}

func (c *Controller) jobChanged(old, now *batchv1.Job) {
	key := view.KeyOf(view.Either(old, now))
	if now == nil {
		c.owners.Expected.Forget(key) // another of its name expects nothing of that
	}
	switch {
	case now == nil, IsFinished(now), now.DeletionTimestamp != nil:
		for _, pod := range c.owners.Pods.ControlledBy(view.Either(old, now).UID) {
			if IsOrphaned(pod, now) {
				c.orphans.Add(view.KeyOf(pod))
			}
		}
		c.loop.Add(key)
	case old != nil && old.Generation == now.Generation:
		c.loop.AddAfter(key, Batch)
	default:
		c.loop.Add(key)
	}
}

// namespaceChanged queues the Jobs of a namespace that is being deleted, because no other event may
// come for them.
func (c *Controller) namespaceChanged(old, now *corev1.Namespace) {
	if !BecomesTerminating(old, now) {
		return
	}
	for _, job := range c.jobs.InNamespace(now.Name) {
		c.loop.Add(view.KeyOf(job))
	}
}

// podChanged queues the Job of a pod, and the pod itself if no Job will count it.
func (c *Controller) podChanged(old, now *corev1.Pod) {
	switch FinalizerStateOf(now, c.jobNamedByOwner(view.Either(old, now))) {
	case Orphan:
		c.orphans.Add(view.KeyOf(now))
	case MaybeOrphan:
		c.orphans.AddAfter(view.KeyOf(now), Batch)
	case NothingToDo:
	}
	c.owners.PodChanged(old, now)
}

// sync processes one Job.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	job, ok := c.jobs.Get(key)
	if !ok {
		c.owners.Expected.Forget(key)
		c.memory.Forget(key)
		return nil
	}
	if IsFinished(job) {
		c.memory.Forget(key)
		return nil
	}
	if isManagedElsewhere(job) {
		return nil
	}
	if err := c.memory.CheckView(job, c.owners.Pods.Get); err != nil {
		return err
	}
	now := c.clock.Now()
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return err
	}
	v := View{Job: job, Stale: c.owners.Stale(key)}
	if ns, there := c.namespaces.Get(view.Key{Name: key.Namespace}); there {
		v.NamespaceTerminating = ns.DeletionTimestamp != nil
	}
	v.Failures, v.Freed = c.memory.Get(key, job.UID)
	if v.Pods, err = c.owners.Claim(ctx, job, selector, nil); err != nil {
		return err
	}
	plan := Decide(v, now)
	for _, event := range plan.Events {
		c.owners.Writes.Events.Event(job, event.Type, event.Reason, event.Message)
	}
	began := clock.Clock{}.Now()
	err = c.applyPlan(ctx, job, &plan)
	c.metrics.synced(job, &plan, err, began)
	return err
}

// applyPlan carries a plan out.
func (c *Controller) applyPlan(ctx context.Context, job *batchv1.Job, plan *Plan) error {
	failed := c.createAndDelete(ctx, job, plan)
	if len(plan.Delete) > 0 && failed != nil {
		return failed // a Job is not over while a pod could not be deleted
	}
	if err := c.countAndFree(ctx, job, *plan); err != nil {
		return errors.Join(failed, err)
	}
	if plan.RequeueAfter > 0 {
		c.loop.AddAfter(view.KeyOf(job), plan.RequeueAfter)
	}
	return failed
}

// createAndDelete creates and deletes pods. A pod that could not be created is not counted as
// active.
func (c *Controller) createAndDelete(ctx context.Context, job *batchv1.Job, plan *Plan) error {
	made, err := c.owners.CreateAndDelete(ctx, job, job, plan.Create, plan.Delete)
	plan.Status.Active -= int32(len(plan.Create) - made)
	return err
}

// countAndFree stores the UIDs to be counted, removes the finalizers of the pods, and stores the
// numbers.
func (c *Controller) countAndFree(ctx context.Context, job *batchv1.Job, plan Plan) error {
	stored, err := c.storeStatus(ctx, job, plan.Status)
	if err != nil {
		return err
	}
	c.memory.SetFailures(view.KeyOf(job), job.UID, plan.Failures)
	var mu sync.Mutex
	var freed []*corev1.Pod
	failed := control.Parallel(len(plan.Free), func(i int) error {
		pod := plan.Free[i]
		switch let, err := c.owners.Writes.PatchAnyVersion(ctx, pod, FinalizerPatch(pod)); {
		case err == nil:
			c.memory.PodFreed(job, pod, view.Revision(let))
		case control.IsGone(err):
			c.memory.PodFreed(job, pod, 0)
		default:
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		freed = append(freed, pod)
		return nil
	}, func() {})
	status, event := StatusAfterFreeing(plan, freed, c.clock.Now())
	over, err := c.storeStatus(ctx, stored, status)
	if err != nil {
		return errors.Join(failed, err)
	}
	c.metrics.freed(job, freed)
	c.metrics.finished(job, over)
	if event.Reason != "" {
		c.owners.Writes.Events.Event(job, event.Type, event.Reason, event.Message)
	}
	return failed
}

// storeStatus stores a changed status.
func (c *Controller) storeStatus(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) (*batchv1.Job, error) {
	if kinds.Equal(job.Status, status) {
		return job, nil
	}
	changed := job.DeepCopy()
	changed.Status = status
	stored, err := c.writes.UpdateStatus(ctx, changed)
	if err == nil {
		c.memory.StatusStored(stored)
	}
	return stored, err
}

// syncOrphan removes the finalizer of a pod that no Job will count.
func (c *Controller) syncOrphan(ctx context.Context, key view.Key) error {
	pod, ok := c.owners.Pods.Get(key)
	if !ok || !NeedsFreeing(pod, c.jobNamedByOwner(pod)) {
		return nil
	}
	if _, err := c.owners.Writes.PatchStrategic(ctx, pod, "", OrphanFinalizerPatch(pod)); err != nil && !control.IsGone(err) {
		return err
	}
	return nil
}

// jobNamedByOwner returns the Job in the view with the name of a pod's owner; nil if there is none.
func (c *Controller) jobNamedByOwner(pod *corev1.Pod) *batchv1.Job {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	job, _ := c.jobs.Get(view.Key{Namespace: pod.Namespace, Name: owner.Name})
	return job
}
