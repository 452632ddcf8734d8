package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLeftByAWrongClock has failures and starts be seen by clocks that are right, and a day behind:
// no wait is longer than it can be.
func TestLeftByAWrongClock(t *testing.T) {
	then := time.Unix(1_700_000_000, 0)
	for since, want := range map[time.Duration][2]time.Duration{
		0: {20 * time.Second, time.Minute}, 5 * time.Second: {15 * time.Second, 55 * time.Second}, -24 * time.Hour: {20 * time.Second, time.Minute}, time.Hour: {0, 0},
	} {
		limited := &batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(60))}, Status: batchv1.JobStatus{StartTime: &metav1.Time{Time: then}}}
		s := planning{View: View{Job: limited}, now: then.Add(since)}
		s.Status = limited.Status
		if got := [2]time.Duration{Failures{Count: 2, Last: then}.remainingPause(s.now), s.deadlineLeft()}; got != want {
			t.Errorf("after %v: %v are left, want %v", since, got, want)
		}
	}
}

// TestEndsAhead has pods end by a clock that is a day ahead: a Job pauses after the last as after any
// other, and an index that has failed so does not wait.
func TestEndsAhead(t *testing.T) {
	failed := pods("failed:0,x=1")
	failed[0].Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(24 * time.Hour))
	if got := (Failures{}).after(failed, now); got != (Failures{Count: 1, Last: now}) {
		t.Errorf("remembered as %+v", got)
	}
	if got := done(Decide(View{Job: job(1, 1, perIndex(1)), Pods: failed}, now)); got != "+0(1) 1/0/0 lost []" {
		t.Errorf("counted by index: %q", got)
	}
}
