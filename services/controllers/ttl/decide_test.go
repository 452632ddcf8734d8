package ttl

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	job := func(ttl int32, condition batchv1.JobConditionType, ago time.Duration) *batchv1.Job {
		j := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		}}}}
		if ttl >= 0 {
			j.Spec.TTLSecondsAfterFinished = &ttl
		}
		return j
	}
	going := job(0, batchv1.JobComplete, time.Hour)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for _, c := range []struct {
		name   string
		job    *batchv1.Job
		remove bool
		wait   time.Duration
	}{
		{"complete, in time", job(10, batchv1.JobComplete, 4*time.Second), false, 6 * time.Second},
		{"complete, over", job(10, batchv1.JobComplete, 10*time.Second), true, 0},
		{"by a clock that is a day behind", job(10, batchv1.JobComplete, -24*time.Hour), false, 10 * time.Second},
		{"at once, by a clock that is a day behind", job(0, batchv1.JobComplete, -24*time.Hour), false, time.Second},
		{"failed, at once", job(0, batchv1.JobFailed, 0), true, 0},
		{"runs", job(0, batchv1.JobSuspended, time.Hour), false, 0},
		{"nothing is said", job(-1, batchv1.JobComplete, time.Hour), false, 0},
		{"goes already", going, false, 0},
	} {
		if remove, wait := Decide(c.job, now); remove != c.remove || wait != c.wait {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, remove, wait, c.remove, c.wait)
		}
	}
}
