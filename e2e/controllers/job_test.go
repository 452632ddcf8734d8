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

// jobResult returns how the Job sum has ended, and why; empty while it runs.
func jobResult(r *rig) (batchv1.JobConditionType, string) {
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
		runInBubble(t, stage.Config{Nodes: 2}, func(r *rig) {
			r.create("jobs.batch", job("sum", "exits 0 after 5s", 6, 2))
			r.waitUntil("two pods", func() bool { return len(r.pods()) == 2 })
			lost := r.pods()[0]
			if len(lost.Finalizers) != 1 || lost.Finalizers[0] != batchv1.JobTrackingFinalizer {
				r.t.Errorf("finalizers %v", lost.Finalizers)
			}
			r.deletePod(lost.Name)
			r.waitUntil("complete", func() bool {
				if crashes {
					r.cluster.Stop("controllers")
					r.cluster.Start("controllers")
					time.Sleep(1100 * time.Millisecond)
				}
				kind, _ := jobResult(r)
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
	runInBubble(t, stage.Config{Nodes: 1}, func(r *rig) {
		failing := job("sum", "exits 3 after 1s", 1, 1)
		failing.Spec.BackoffLimit = new(int32(2))
		r.create("jobs.batch", failing)
		took := r.waitUntil("failed", func() bool { kind, _ := jobResult(r); return kind == batchv1.JobFailed })
		if _, reason := jobResult(r); reason != "BackoffLimitExceeded" || len(r.pods()) != 3 {
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
		runInBubble(t, stage.Config{Nodes: 1}, func(r *rig) {
			j := job("sum", "on TERM exits 1 after 20s", 1, 1)
			j.Spec.PodReplacementPolicy = &policy
			r.create("jobs.batch", j)
			r.waitRunning(1)
			r.deletePod(r.pods()[0].Name)
			time.Sleep(18 * time.Second)
			if n := len(r.pods()); n != most {
				r.t.Errorf("%s: %d pods while the old one stops, want %d", policy, n, most)
			}
			r.waitRunning(1)
		})
	}
}

// TestFinishedJobGoes has a Job deleted after its time, with its pods.
func TestFinishedJobGoes(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 1, Controllers: append(workloadControllers(), "garbagecollector")}, func(r *rig) {
		j := job("sum", "exits 0 after 1s", 1, 1)
		j.Spec.TTLSecondsAfterFinished = new(int32(100))
		r.create("jobs.batch", j)
		r.waitUntil("complete", func() bool { kind, _ := jobResult(r); return kind == batchv1.JobComplete })
		time.Sleep(98 * time.Second)
		if len(list[*batchv1.Job](r, "jobs.batch")) != 1 {
			r.t.Error("gone too early")
		}
		took := r.waitUntil("gone", func() bool { return len(list[*batchv1.Job](r, "jobs.batch")) == 0 && len(r.pods()) == 0 })
		if took > 10*time.Second {
			r.t.Errorf("gone %v after its time", took)
		}
	})
}

// TestIndexedJobs has Jobs end by what their indexes do: each fails for itself, or some of them
// are enough.
func TestIndexedJobs(t *testing.T) {
	indexed := func(script string, completions, parallelism int32, change func(*batchv1.JobSpec)) *batchv1.Job {
		j := job("sum", script, completions, parallelism)
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		change(&j.Spec)
		return j
	}
	for _, c := range []struct {
		name       string
		job        *batchv1.Job
		kind       batchv1.JobConditionType
		reason     string
		pods       int // that were made
		done, lost string
		took       time.Duration
	}{
		{
			"each index fails twice, 10 s apart", indexed("exits 1 after 5s", 2, 2, func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = new(int32(1)) }),
			batchv1.JobFailed, batchv1.JobReasonFailedIndexes, 4, "", "0,1", 22 * time.Second,
		},
		{
			"the second index that fails is too much", indexed("exits 1 after 5s", 4, 1, func(s *batchv1.JobSpec) {
				s.BackoffLimitPerIndex, s.MaxFailedIndexes = new(int32(0)), new(int32(1))
			}),
			batchv1.JobFailed, batchv1.JobReasonMaxFailedIndexesExceeded, 2, "", "0,1", 16 * time.Second,
		},
		{
			"two of four are enough", indexed("exits 0 after 5s", 4, 1, func(s *batchv1.JobSpec) {
				s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(2))}}}
			}),
			batchv1.JobComplete, batchv1.JobReasonSuccessPolicy, 2, "0,1", "", 16 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			runInBubble(t, stage.Config{Nodes: 2}, func(r *rig) {
				r.create("jobs.batch", c.job)
				took := r.waitUntil("over", func() bool { kind, _ := jobResult(r); return kind != "" })
				kind, reason := jobResult(r)
				status := get[*batchv1.Job](r, "jobs.batch", "sum").Status
				lost := ""
				if status.FailedIndexes != nil {
					lost = *status.FailedIndexes
				}
				if kind != c.kind || reason != c.reason || status.CompletedIndexes != c.done || lost != c.lost || len(r.pods()) != c.pods {
					r.t.Errorf("%s, %s, done %q, lost %q, %d pods; want %s, %s, %q, %q, %d", kind, reason, status.CompletedIndexes, lost, len(r.pods()),
						c.kind, c.reason, c.done, c.lost, c.pods)
				}
				if took < c.took-3*time.Second || took > c.took+3*time.Second {
					r.t.Errorf("it took %v, want about %v", took, c.took)
				}
				for _, pod := range r.pods() {
					if len(pod.Finalizers) > 0 {
						r.t.Errorf("%s keeps %v", pod.Name, pod.Finalizers)
					}
				}
			})
		})
	}
}

// TestSuspendedJob runs nothing while it is suspended, and begins anew when it is not; a Job
// that another controller manages is left alone.
func TestSuspendedJob(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 1}, func(r *rig) {
		managed := job("others", "exits 0 after 1s", 1, 1)
		managed.Spec.ManagedBy = new("example.com/queue")
		r.create("jobs.batch", managed)
		r.create("jobs.batch", job("sum", "exits 0 after 30s", 2, 2))
		r.waitRunning(2)
		begun := get[*batchv1.Job](r, "jobs.batch", "sum").Status.StartTime
		r.mergePatch("jobs.batch", "sum", `{"spec":{"suspend":true}}`)
		r.waitUntil("its pods are gone", func() bool { return len(r.pods()) == 0 })
		time.Sleep(time.Minute)
		status := get[*batchv1.Job](r, "jobs.batch", "sum").Status
		if c := status.Conditions; len(c) != 1 || c[0].Type != batchv1.JobSuspended || c[0].Status != corev1.ConditionTrue || c[0].Reason != "JobSuspended" || status.Active != 0 {
			r.t.Errorf("suspended: %+v", status)
		}
		r.mergePatch("jobs.batch", "sum", `{"spec":{"suspend":false}}`)
		r.waitUntil("complete", func() bool { kind, _ := jobResult(r); return kind == batchv1.JobComplete })
		status = get[*batchv1.Job](r, "jobs.batch", "sum").Status
		if !status.StartTime.After(begun.Add(time.Minute)) || status.Succeeded != 2 || status.Conditions[0].Reason != "JobResumed" {
			r.t.Errorf("resumed: %+v", status)
		}
		if status := get[*batchv1.Job](r, "jobs.batch", "others").Status; status.StartTime != nil {
			r.t.Errorf("another's Job: %+v", status)
		}
	})
}
