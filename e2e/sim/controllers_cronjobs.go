package sim

import (
	"errors"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/cronjob"
	"github.com/podfall/podfall/services/controllers/view"
)

const (
	cronJobsResource  = "cronjobs.batch"
	cronJobController = "cronjob-controller"
	lookCronJob       = "cronjob"
)

// newCronJobs returns the copy of CronJobs. In a run that does not follow CronJobs the copy counts
// as synced.
func (c *controllers) newCronJobs() *copyOf[*batchv1.CronJob] {
	cronJobs := newCopy(func(old, now *batchv1.CronJob) {
		c.enqueue(lookCronJob, nameOf(view.Either(old, now)))
	})
	cronJobs.synced = !c.includes(cronJobsResource)
	return cronJobs
}

// madeJobChanged has the CronJob looked at that a Job is of.
func (c *controllers) madeJobChanged(its *batchv1.Job) {
	if maker := cronjob.OwnerName(its); maker != "" {
		c.enqueue(lookCronJob, name{its.Namespace, maker})
	}
}

func (c *controllers) syncCronJob(key string, of name) {
	its, known := c.jobs.cron.get(of)
	if !known {
		c.jobs.cronMemory.Forget(view.Key(of))
		return
	}
	var mine []*batchv1.Job
	for _, made := range c.jobs.objects.all() {
		if metav1.IsControlledBy(made, its) {
			mine = append(mine, made)
		}
	}
	done, v := c.start(key), c.jobs.cronMemory.NewView(its, mine)
	unseen := v.UnseenActive()
	one := afterAll(len(unseen), func(failed error) {
		if failed != nil {
			done(failed)
			return
		}
		c.runCronJob(v, done)
	})
	for _, ref := range unseen {
		target := podapi.Target{Kind: kindOfResource("jobs.batch"), Namespace: its.Namespace, Name: ref.Name}
		c.write(cronJobController, Ask{Verb: proto.VerbGet, Target: target}, nil, func(got Outcome) {
			found, _ := got.Object.(*batchv1.Job)
			one(v.RecordLookup(ref, found, got.Err))
		})
	}
}

// runCronJob does what a CronJob needs of which this is known: Jobs go, one is made, and the
// status says so.
func (c *controllers) runCronJob(v cronjob.View, done func(error)) {
	its, plan := v.CronJob, cronjob.Decide(v, c.clockTime())
	finish := func(failed error) {
		if failed != nil {
			plan.Status, plan.RequeueAfter = plan.StatusIfFailed, 0
		}
		c.storeCronJob(v, plan.Status, func(err error) {
			if err == nil && plan.RequeueAfter > 0 {
				c.enqueueAfter(lookCronJob, nameOf(its), plan.RequeueAfter)
			}
			done(errors.Join(failed, err))
		})
	}
	c.deleteJobs(slices.Concat(plan.Delete, plan.Replace), func(failed error) {
		if failed != nil || plan.Create == nil {
			finish(failed)
			return
		}
		c.makeJob(its, plan.Create, func(made *batchv1.Job, err error) {
			if made != nil {
				plan.Status = cronjob.WithActive(plan.Status, made)
			}
			if err == nil {
				c.jobs.cronMemory.RecordHandled(its, plan.Status)
			}
			finish(err)
		})
	})
}

// deleteJobs deletes Jobs and, in the background, their pods.
func (c *controllers) deleteJobs(jobs []*batchv1.Job, then func(error)) {
	one := afterAll(len(jobs), then)
	for _, its := range jobs {
		options := &metav1.DeleteOptions{
			PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &its.UID},
		}
		c.write(cronJobController, Ask{Verb: proto.VerbDelete, Target: targetOf("jobs.batch", its, ""), Options: options}, its, func(got Outcome) {
			one(ignoreIf(control.IsGone, got.Err))
		})
	}
}

// makeJob makes the Job of a time; then is told of it as long as it runs, also of one that was
// made before.
func (c *controllers) makeJob(by *batchv1.CronJob, wanted *batchv1.Job, then func(*batchv1.Job, error)) {
	c.write(cronJobController, createRequest("jobs.batch", wanted.Namespace, wanted), nil, func(got Outcome) {
		made, _ := got.Object.(*batchv1.Job)
		switch {
		case got.Err == nil:
			then(made, nil)
		case control.IsNamespaceTerminating(got.Err):
			then(nil, nil)
		case !apierrors.IsAlreadyExists(got.Err):
			then(nil, got.Err)
		default:
			c.write(cronJobController, Ask{Verb: proto.VerbGet, Target: targetOf("jobs.batch", wanted, "")}, nil, func(got Outcome) {
				before, is := got.Object.(*batchv1.Job)
				if got.Err != nil || !is {
					then(nil, got.Err)
					return
				}
				runs, err := cronjob.IsUnfinishedJobOf(by, before)
				if !runs {
					before = nil
				}
				then(before, err)
			})
		}
	})
}

// storeCronJob stores a status that says something new.
func (c *controllers) storeCronJob(v cronjob.View, status batchv1.CronJobStatus, then func(error)) {
	if kinds.Equal(v.StoredStatus, status) {
		then(nil)
		return
	}
	its := v.CronJob
	changed := its.DeepCopy()
	changed.Status = status
	c.write(cronJobController, updateOf(cronJobsResource, changed, "status"), its, func(got Outcome) {
		if stored, is := got.Object.(*batchv1.CronJob); is && got.Err == nil {
			c.jobs.cronMemory.RecordStored(stored)
		}
		then(got.Err)
	})
}
