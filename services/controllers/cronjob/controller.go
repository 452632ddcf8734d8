package cronjob

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller creates Jobs on time.
type Controller struct {
	cronJobs  *view.Copy[*batchv1.CronJob]
	jobs      *view.Copy[*batchv1.Job]
	writes    control.Resource[*batchv1.CronJob]
	jobWrites control.Resource[*batchv1.Job]
	memory    *Memory
	events    control.Recorder
	clock     clock.Clock
	loop      *loop.Loop[view.Key]
}

const workers = 5

// New returns the controller of CronJobs.
func New(base control.Base) *Controller {
	c := &Controller{
		cronJobs:  view.Of[*batchv1.CronJob](base.Views, "cronjobs.batch"),
		jobs:      view.Of[*batchv1.Job](base.Views, "jobs.batch"),
		writes:    control.Of[*batchv1.CronJob](base.API, "cronjobs.batch"),
		jobWrites: control.Of[*batchv1.Job](base.API, "jobs.batch"),
		memory:    NewMemory(), events: base.Events("cronjob-controller"), clock: base.Clock,
	}
	c.loop = loop.New(loop.Config{Name: "cronjob", Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.cronJobs.OnChange(func(old, now *batchv1.CronJob) {
		c.loop.Add(view.KeyOf(view.Either(old, now)))
	})
	c.jobs.OnChange(func(old, now *batchv1.Job) {
		job := view.Either(old, now)
		if maker := OwnerName(job); maker != "" {
			c.loop.Add(view.Key{Namespace: job.Namespace, Name: maker})
		}
	})
	return c
}

// Run creates Jobs until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// sync processes one CronJob.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	cached, ok := c.cronJobs.Get(key)
	if !ok {
		c.memory.Forget(key)
		return nil
	}
	v := c.memory.NewView(cached, c.jobs.ControlledBy(cached.UID))
	cronJob := v.CronJob
	for _, ref := range v.UnseenActive() {
		job, err := c.jobWrites.Get(ctx, cronJob.Namespace, ref.Name)
		if err := v.RecordLookup(ref, job, err); err != nil {
			return err
		}
	}
	plan := Decide(v, c.clock.Now())
	for _, event := range plan.Events {
		c.events.Event(cronJob, event.Type, event.Reason, event.Message)
	}
	failed := c.deleteAndCreate(ctx, cronJob, &plan)
	switch {
	case failed != nil: // it still says which Jobs have ended, as upstream's
		plan.Status, plan.RequeueAfter = plan.StatusIfFailed, 0
	case plan.Create != nil:
		c.memory.RecordHandled(cronJob, plan.Status)
	}
	if !kinds.Equal(v.StoredStatus, plan.Status) {
		changed := cronJob.DeepCopy()
		changed.Status = plan.Status
		stored, err := c.writes.UpdateStatus(ctx, changed)
		if err != nil {
			return errors.Join(failed, err)
		}
		c.memory.RecordStored(stored)
	}
	if plan.RequeueAfter > 0 {
		c.loop.AddAfter(key, plan.RequeueAfter)
	}
	return failed
}

// deleteAndCreate deletes and creates the Jobs of a plan.
func (c *Controller) deleteAndCreate(ctx context.Context, cronJob *batchv1.CronJob, plan *Plan) error {
	for _, jobs := range [][]*batchv1.Job{plan.Delete, plan.Replace} {
		for _, job := range jobs {
			if err := c.deleteJob(ctx, cronJob, job); err != nil {
				return err
			}
		}
	}
	if plan.Create == nil {
		return nil
	}
	created, err := c.jobWrites.Create(ctx, plan.Create)
	switch {
	case apierrors.IsAlreadyExists(err):
		if created, err = c.jobWrites.Get(ctx, plan.Create.Namespace, plan.Create.Name); err != nil {
			return err
		}
		if runs, err := IsUnfinishedJobOf(cronJob, created); !runs {
			return err
		}
	case control.IsNamespaceTerminating(err):
		return nil
	case err != nil:
		c.events.Event(cronJob, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating job: %v", err))
		return err
	default:
		c.events.Event(cronJob, corev1.EventTypeNormal, "SuccessfulCreate", "Created job "+created.Name)
	}
	plan.Status = WithActive(plan.Status, created)
	return nil
}

// deleteJob deletes a Job and, in the background, its pods.
func (c *Controller) deleteJob(ctx context.Context, cronJob *batchv1.CronJob, job *batchv1.Job) error {
	background := metav1.DeletePropagationBackground
	err := c.jobWrites.Delete(ctx, job, metav1.DeleteOptions{PropagationPolicy: &background})
	switch {
	case control.IsGone(err):
	case err != nil:
		c.events.Event(cronJob, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Deleted job: %v", err))
		return err
	default:
		c.events.Event(cronJob, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job "+job.Name)
	}
	return nil
}
