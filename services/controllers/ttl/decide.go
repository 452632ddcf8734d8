// Package ttl deletes Jobs that are over, so many seconds after, if they say so. decide.go
// says when; controller.go watches and deletes.
package ttl

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Decide returns whether to delete a Job at now, and otherwise how long until that time; 0 means
// never.
func Decide(job *batchv1.Job, now time.Time) (remove bool, wait time.Duration) {
	if job.DeletionTimestamp != nil || job.Spec.TTLSecondsAfterFinished == nil {
		return false, 0
	}
	for _, condition := range job.Status.Conditions {
		if (condition.Type != batchv1.JobComplete && condition.Type != batchv1.JobFailed) || condition.Status != corev1.ConditionTrue {
			continue
		}
		if condition.LastTransitionTime.IsZero() {
			return false, 0
		}
		ttl := time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
		if left := condition.LastTransitionTime.Add(ttl).Sub(now); left > 0 {
			return false, min(left, max(ttl, time.Second)) // more is left where a clock is or was wrong
		}
		return true, 0
	}
	return false, 0
}
