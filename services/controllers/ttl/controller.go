package ttl

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller deletes finished Jobs whose TTL has passed.
type Controller struct {
	jobs   *view.Copy[*batchv1.Job]
	writes control.Resource[*batchv1.Job]
	clock  clock.Clock
	loop   *loop.Loop[view.Key]
}

const workers = 5

// New returns the controller of the TTL of finished Jobs.
func New(base control.Base) *Controller {
	c := &Controller{
		jobs:   view.Of[*batchv1.Job](base.Views, "jobs.batch"),
		writes: control.Of[*batchv1.Job](base.API, "jobs.batch"), clock: base.Clock,
	}
	c.loop = loop.New(loop.Config{Name: "ttl_jobs_to_delete", Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.jobs.OnChange(func(_, now *batchv1.Job) {
		if now != nil && now.Spec.TTLSecondsAfterFinished != nil {
			c.loop.Add(view.KeyOf(now))
		}
	})
	return c
}

// Run deletes until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// sync processes one Job. It reads the Job from the API before it deletes it, because its TTL may
// have been raised.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	job, ok := c.jobs.Get(key)
	if !ok {
		return nil
	}
	remove, wait := Decide(job, c.clock.Now())
	if remove {
		latest, err := c.writes.Get(ctx, key.Namespace, key.Name)
		if err != nil {
			return ignoreGone(err)
		}
		if remove, wait = Decide(latest, c.clock.Now()); remove {
			return ignoreGone(c.writes.Delete(ctx, latest, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
		}
	}
	if wait > 0 {
		c.loop.AddAfter(key, wait)
	}
	return nil
}

func ignoreGone(err error) error {
	if control.IsGone(err) {
		return nil
	}
	return err
}
