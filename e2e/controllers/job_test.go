package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

func job(name, script string, completions, parallelism int32) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
	j.Spec.Completions, j.Spec.Parallelism = &completions, &parallelism
	j.Spec.Template = template("", script)
	j.Spec.Template.Labels = nil
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return j
}

// over is how the Job sum has ended, and why; empty while it has not.
func over(r *rig) (batchv1.JobConditionType, string) {
	for _, condition := range get[*batchv1.Job](r, "jobs.batch", "sum").Status.Conditions {
		if condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed {
			return condition.Type, condition.Reason
		}
	}
	return "", ""
}

// TestJob runs a Job to its end, in spite of a pod that is deleted and of crashes of the
// controllers at every second.
func TestJob(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		bubble(t, stage.Config{Nodes: 2}, func(r *rig) {
			r.create("jobs.batch", job("sum", "exits 0 after 5s", 6, 2))
			r.until("two pods", func() bool { return len(r.pods()) == 2 })
			lost := r.pods()[0]
			if len(lost.Finalizers) != 1 || lost.Finalizers[0] != batchv1.JobTrackingFinalizer {
				r.t.Errorf("finalizers %v", lost.Finalizers)
			}
			r.remove(lost.Name)
			r.until("complete", func() bool {
				if crashes {
					r.cluster.Stop("controllers")
					r.cluster.Start("controllers")
					time.Sleep(1100 * time.Millisecond)
				}
				kind, _ := over(r)
				return kind == batchv1.JobComplete
			})
			status := get[*batchv1.Job](r, "jobs.batch", "sum").Status
			if status.Succeeded != 6 || status.Failed != 1 || status.Active != 0 {
				r.t.Errorf("succeeded %d, failed %d, active %d; want 6, 1, 0", status.Succeeded, status.Failed, status.Active)
			}
			time.Sleep(5 * time.Second)
			if pods := r.pods(); len(pods) != 6 {
				r.t.Errorf("%d pods, want the 6 that succeeded", len(pods))
			}
			for _, pod := range r.pods() {
				if len(pod.Finalizers) > 0 {
					r.t.Errorf("%s still has its finalizer", pod.Name)
				}
			}
		})
	}
}

// TestJobFails backs off 10 s, then 20 s, and gives up.
func TestJobFails(t *testing.T) {
	bubble(t, stage.Config{Nodes: 1}, func(r *rig) {
		failing := job("sum", "exits 3 after 1s", 1, 1)
		failing.Spec.BackoffLimit = new(int32(2))
		r.create("jobs.batch", failing)
		took := r.until("failed", func() bool { kind, _ := over(r); return kind == batchv1.JobFailed })
		if _, reason := over(r); reason != "BackoffLimitExceeded" || len(r.pods()) != 3 {
			r.t.Errorf("failed for %s with %d pods", reason, len(r.pods()))
		}
		if took < 33*time.Second || took > 45*time.Second {
			r.t.Errorf("it took %v, want two pauses of 10 and 20 s", took)
		}
	})
}

// TestReplacePodsThatFailed has podReplacementPolicy wait for the end of the old pod.
func TestReplacePodsThatFailed(t *testing.T) {
	for policy, most := range map[batchv1.PodReplacementPolicy]int{batchv1.TerminatingOrFailed: 2, batchv1.Failed: 1} {
		bubble(t, stage.Config{Nodes: 1}, func(r *rig) {
			j := job("sum", "on TERM exits 1 after 20s", 1, 1)
			j.Spec.PodReplacementPolicy = &policy
			r.create("jobs.batch", j)
			r.running(1)
			r.remove(r.pods()[0].Name)
			time.Sleep(18 * time.Second)
			if n := len(r.pods()); n != most {
				r.t.Errorf("%s: %d pods while the old one stops, want %d", policy, n, most)
			}
			r.running(1)
		})
	}
}

// TestFinishedJobGoes has a Job deleted after its time, with its pods.
func TestFinishedJobGoes(t *testing.T) {
	bubble(t, stage.Config{Nodes: 1, Controllers: append(workloads(), "garbagecollector")}, func(r *rig) {
		j := job("sum", "exits 0 after 1s", 1, 1)
		j.Spec.TTLSecondsAfterFinished = new(int32(100))
		r.create("jobs.batch", j)
		r.until("complete", func() bool { kind, _ := over(r); return kind == batchv1.JobComplete })
		time.Sleep(98 * time.Second)
		if len(list[*batchv1.Job](r, "jobs.batch")) != 1 {
			r.t.Error("gone too early")
		}
		took := r.until("gone", func() bool { return len(list[*batchv1.Job](r, "jobs.batch")) == 0 && len(r.pods()) == 0 })
		if took > 10*time.Second {
			r.t.Errorf("gone %v after its time", took)
		}
	})
}
