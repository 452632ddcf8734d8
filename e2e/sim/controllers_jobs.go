package sim

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/job"
	"github.com/podfall/podfall/services/controllers/workload"
)

// jobs is what is known of Jobs.
type jobs struct {
	objects  *copyOf[*batchv1.Job]
	expected *workload.Expectations
	memory   *job.Memory
}

const (
	jobController = "job-controller"
	lookJob       = "job"
	// lookUncounted is about a pod that perhaps no Job will count.
	lookUncounted = "uncounted"
)

func (c *controllers) newJobs() jobs {
	return jobs{objects: newCopy(c.jobChanged), expected: workload.NewExpectations(), memory: job.NewMemory()}
}

func (c *controllers) jobChanged(old, now *batchv1.Job) {
	of := nameOf(either(old, now))
	switch {
	case now == nil, job.Over(now):
		for _, pod := range c.owned(either(old, now)) {
			if job.Orphaned(pod, now) {
				c.look(lookUncounted, nameOf(pod))
			}
		}
		c.look(lookJob, of)
	case old != nil && old.Generation == now.Generation:
		c.lookAfter(lookJob, of, job.Batch)
	default:
		c.look(lookJob, of)
	}
}

// jobPodChanged has the Job looked at that a pod is of, and the pod itself if no Job will
// count it.
func (c *controllers) jobPodChanged(old, now *corev1.Pod) {
	pod := either(old, now)
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner != nil && owner.Kind != "Job" {
		return
	}
	if owner == nil {
		if now != nil && job.Tracked(now) {
			c.look(lookUncounted, nameOf(now))
		}
		return
	}
	of := name{pod.Namespace, owner.Name}
	its, known := c.jobs.objects.get(of)
	known = known && its.UID == owner.UID
	switch {
	case now == nil || !job.Tracked(now):
		c.jobs.memory.Seen(types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, pod.UID)
	case !known:
		c.lookAfter(lookUncounted, nameOf(now), job.Batch)
	case job.Orphaned(now, its):
		c.look(lookUncounted, nameOf(now))
	}
	if known || its == nil {
		noticed(c.jobs.expected, of, old, now)
		c.lookAfter(lookJob, of, job.Batch)
	}
}

func (c *controllers) syncJob(key string, of name) {
	its, known := c.jobs.objects.get(of)
	if !known {
		gone := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
		c.jobs.expected.Forget(gone)
		c.jobs.memory.Forget(gone)
		return
	}
	if job.Over(its) {
		return
	}
	v := job.View{Job: its, Pods: c.owned(its), Stale: c.stale(lookJob, c.jobs.expected, its)}
	v.Failures, v.Freed = c.jobs.memory.Of(keyOf(its), its.UID)
	plan := job.Decide(v, c.now)
	done := c.begun(key)
	c.act(maker{jobController, c.jobs.expected, its}, plan.Create, plan.Delete, func(made int, failed error) {
		plan.Status.Active -= int32(len(plan.Create) - made) // what could not be made does not run
		if len(plan.Delete) > 0 && failed != nil {
			done(failed)
			return
		}
		c.count(its, plan, func(err error) {
			if err == nil && plan.Again > 0 {
				c.lookAfter(lookJob, of, plan.Again)
			}
			if failed == nil {
				failed = err
			}
			done(failed)
		})
	})
}

// count stores what is to be counted, lets go of the pods, and stores the numbers.
func (c *controllers) count(its *batchv1.Job, plan job.Plan, then func(error)) {
	c.storeJob(its, plan.Status, func(stored *batchv1.Job, err error) {
		if err != nil {
			then(err)
			return
		}
		key, memory := keyOf(its), c.jobs.memory
		memory.Remember(key, its.UID, plan.Failures)
		var freed []*corev1.Pod
		one := all(len(plan.Free), func(failed error) {
			settled, _ := job.Settle(plan, freed, c.now)
			c.storeJob(stored, settled, func(_ *batchv1.Job, err error) {
				if failed == nil {
					failed = err
				}
				then(failed)
			})
		})
		for _, pod := range plan.Free {
			memory.Free(key, its.UID, pod.UID)
			c.free(pod, func(err error) {
				if err != nil {
					memory.Seen(key, pod.UID)
				} else {
					freed = append(freed, pod)
				}
				one(err)
			})
		}
	})
}

// storeJob stores a status that says something new.
func (c *controllers) storeJob(its *batchv1.Job, status batchv1.JobStatus, then func(*batchv1.Job, error)) {
	if equality.Semantic.DeepEqual(its.Status, status) {
		then(its, nil)
		return
	}
	changed := its.DeepCopy()
	changed.Status = status
	c.write(jobController, Ask{Verb: proto.VerbUpdate, Target: targetOf("jobs.batch", its, "status"), Object: changed}, its, func(got Got) {
		stored, _ := got.Object.(*batchv1.Job)
		then(stored, got.Err)
	})
}

// free takes the tracking finalizer off a pod; one that is gone needs none of it.
func (c *controllers) free(pod *corev1.Pod, then func(error)) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{job.Finalizer},
	}})
	if err != nil {
		then(err)
		return
	}
	ask := Ask{Verb: proto.VerbPatch, Target: targetOf("pods", pod, ""), PatchType: types.StrategicMergePatchType, Patch: patch}
	c.write(jobController, ask, pod, func(got Got) { then(lest(goneOrAnother, got.Err)) })
}

// syncUncounted lets go of a pod that no Job will count.
func (c *controllers) syncUncounted(key string, of name) {
	pod, known := c.pods.get(of)
	if !known {
		return
	}
	var its *batchv1.Job
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		its, _ = c.jobs.objects.get(name{pod.Namespace, owner.Name})
	}
	if job.Uncounted(pod, its) {
		c.free(pod, c.begun(key))
	}
}
