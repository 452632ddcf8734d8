package sim

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/cronjob"
	"github.com/podfall/podfall/services/controllers/job"
	"github.com/podfall/podfall/services/controllers/ttl"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// jobState is the state of the Job and CronJob controllers.
type jobState struct {
	objects    *copyOf[*batchv1.Job]
	cron       *copyOf[*batchv1.CronJob]
	expected   *workload.Expectations
	memory     *job.Memory
	cronMemory *cronjob.Memory
}

const (
	jobController = "job-controller"
	lookJob       = "job"
	// lookUncounted is about a pod that perhaps no Job will count.
	lookUncounted = "uncounted"
	// lookOutlived is about a Job whose time after its end is perhaps over.
	lookOutlived  = "outlived"
	ttlController = "ttl-after-finished-controller"
)

func (c *controllers) newJobs() jobState {
	return jobState{objects: newCopy(c.jobChanged), cron: c.newCronJobs(), expected: workload.NewExpectations(), memory: job.NewMemory(), cronMemory: cronjob.NewMemory()}
}

func (c *controllers) jobChanged(old, now *batchv1.Job) {
	of := nameOf(view.Either(old, now))
	c.madeJobChanged(view.Either(old, now))
	if now == nil {
		c.jobs.expected.Forget(view.KeyOf(old)) // another of its name expects nothing of that
	}
	if now != nil && now.Spec.TTLSecondsAfterFinished != nil {
		c.enqueue(lookOutlived, of)
	}
	switch {
	case now == nil, job.IsFinished(now), now.DeletionTimestamp != nil:
		for _, pod := range c.owned(view.Either(old, now)) {
			if job.IsOrphaned(pod, now) {
				c.enqueue(lookUncounted, nameOf(pod))
			}
		}
		c.enqueue(lookJob, of)
	case old != nil && old.Generation == now.Generation:
		c.enqueueAfter(lookJob, of, job.Batch)
	default:
		c.enqueue(lookJob, of)
	}
}

// jobPodChanged has a pod looked at that perhaps no Job will count.
func (c *controllers) jobPodChanged(old, now *corev1.Pod) {
	switch job.FinalizerStateOf(now, c.jobUnder(view.Either(old, now))) {
	case job.Orphan:
		c.enqueue(lookUncounted, nameOf(now))
	case job.MaybeOrphan:
		c.enqueueAfter(lookUncounted, nameOf(now), job.Batch)
	case job.NothingToDo:
	}
}

// jobUnder is the Job that has the name of a pod's owner; nil when there is none.
func (c *controllers) jobUnder(pod *corev1.Pod) *batchv1.Job {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	its, _ := c.jobs.objects.get(name{pod.Namespace, owner.Name})
	return its
}

// alarmOfJob is a look that is about a Job, about a pod of one, or about a CronJob.
func (c *controllers) alarmOfJob(what, key string, of name) {
	switch what {
	case lookJob:
		c.syncJob(key, of)
	case lookOutlived:
		c.syncOutlived(key, of)
	case lookUncounted:
		c.syncUncounted(key, of)
	case lookCronJob:
		c.syncCronJob(key, of)
	}
}

func (c *controllers) syncJob(key string, of name) {
	its, known := c.jobs.objects.get(of)
	if !known {
		gone := view.Key(of)
		c.jobs.expected.Forget(gone)
		c.jobs.memory.Forget(gone)
		return
	}
	if job.IsFinished(its) {
		c.jobs.memory.Forget(view.KeyOf(its))
		return
	}
	done := c.start(key)
	if err := c.jobs.memory.CheckView(its, c.podAt); err != nil {
		done(err)
		return
	}
	v := job.View{Job: its, Stale: c.isStale(lookJob, c.jobs.expected, its)}
	if within, there := c.namespaces.get(name{"", of.Namespace}); there {
		v.NamespaceTerminating = within.DeletionTimestamp != nil
	}
	v.Failures, v.Freed = c.jobs.memory.Get(view.KeyOf(its), its.UID)
	c.claim(claimsOfJob(its), func(pods []*corev1.Pod, err error) {
		if err != nil {
			done(err)
			return
		}
		v.Pods = pods
		c.runJob(v, done)
	})
}

// runJob does what a Job needs of which this is known.
func (c *controllers) runJob(v job.View, done func(error)) {
	its, plan := v.Job, job.Decide(v, c.clockTime())
	c.createAndDelete(podOwner{jobController, c.jobs.expected, its}, plan.Create, plan.Delete, func(made int, failed error) {
		plan.Status.Active -= int32(len(plan.Create) - made) // what could not be made does not run
		if len(plan.Delete) > 0 && failed != nil {
			done(failed)
			return
		}
		c.countPods(its, plan, func(err error) {
			if err == nil && plan.RequeueAfter > 0 {
				c.enqueueAfter(lookJob, nameOf(its), plan.RequeueAfter)
			}
			if failed == nil {
				failed = err
			}
			done(failed)
		})
	})
}

// countPods stores which pods are to be counted, removes their finalizers, and stores the numbers.
func (c *controllers) countPods(its *batchv1.Job, plan job.Plan, then func(error)) {
	c.storeJob(its, plan.Status, func(stored *batchv1.Job, err error) {
		if err != nil {
			then(err)
			return
		}
		c.jobs.memory.SetFailures(view.KeyOf(its), its.UID, plan.Failures)
		var freed []*corev1.Pod
		one := afterAll(len(plan.Free), func(failed error) {
			settled, _ := job.StatusAfterFreeing(plan, freed, c.clockTime())
			c.storeJob(stored, settled, func(_ *batchv1.Job, err error) {
				if failed == nil {
					failed = err
				}
				then(failed)
			})
		})
		for _, pod := range plan.Free {
			c.removeTrackingFinalizer(its, pod, func(err error) {
				if err == nil {
					freed = append(freed, pod)
				}
				one(err)
			})
		}
	})
}

// storeJob stores a status that says something new.
func (c *controllers) storeJob(its *batchv1.Job, status batchv1.JobStatus, then func(*batchv1.Job, error)) {
	if kinds.Equal(its.Status, status) {
		then(its, nil)
		return
	}
	changed := its.DeepCopy()
	changed.Status = status
	c.write(jobController, updateOf("jobs.batch", changed, "status"), its, func(got Outcome) {
		stored, is := got.Object.(*batchv1.Job)
		if is && got.Err == nil {
			c.jobs.memory.StatusStored(stored)
		}
		then(stored, got.Err)
	})
}

// removeTrackingFinalizer removes the tracking finalizer of a Job's pod; a missing pod is no error.
func (c *controllers) removeTrackingFinalizer(its *batchv1.Job, pod *corev1.Pod, then func(error)) {
	c.patchAnyway(jobController, pod, job.FinalizerPatch(pod), func(got Outcome) {
		if let, is := got.Object.(*corev1.Pod); is && got.Err == nil {
			c.jobs.memory.PodFreed(its, pod, view.Revision(let))
		} else if control.IsGone(got.Err) {
			c.jobs.memory.PodFreed(its, pod, 0)
		}
		then(ignoreIf(control.IsGone, got.Err))
	})
}

// podAt finds a pod in the view.
func (c *controllers) podAt(key view.Key) (*corev1.Pod, bool) {
	return c.pods.get(name(key))
}

// syncUncounted lets go of a pod that no Job will count.
func (c *controllers) syncUncounted(key string, of name) {
	if pod, known := c.pods.get(of); known && job.NeedsFreeing(pod, c.jobUnder(pod)) {
		done := c.start(key)
		c.patch(jobController, pod, job.OrphanFinalizerPatch(pod), func(got Outcome) { done(ignoreIf(control.IsGone, got.Err)) })
	}
}

// syncOutlived deletes a Job so long after its end as it says. Before that it is read from the
// API.
func (c *controllers) syncOutlived(key string, of name) {
	its, known := c.jobs.objects.get(of)
	if !known {
		return
	}
	remove, wait := ttl.Decide(its, c.clockTime())
	if wait > 0 {
		c.enqueueAfter(lookOutlived, of, wait)
	}
	if !remove {
		return
	}
	done := c.start(key)
	c.write(ttlController, Ask{Verb: proto.VerbGet, Target: targetOf("jobs.batch", its, "")}, nil, func(got Outcome) {
		fresh, is := got.Object.(*batchv1.Job)
		if got.Err != nil || !is {
			done(ignoreIf(control.IsGone, got.Err))
			return
		}
		if remove, wait := ttl.Decide(fresh, c.clockTime()); !remove {
			if done(nil); wait > 0 {
				c.enqueueAfter(lookOutlived, of, wait)
			}
			return
		}
		options := &metav1.DeleteOptions{
			PropagationPolicy: new(metav1.DeletePropagationForeground), Preconditions: &metav1.Preconditions{UID: &fresh.UID},
		}
		c.write(ttlController, Ask{Verb: proto.VerbDelete, Target: targetOf("jobs.batch", its, ""), Options: options}, fresh, func(got Outcome) {
			done(ignoreIf(control.IsGone, got.Err))
		})
	})
}
