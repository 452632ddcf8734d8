package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// jobMetrics are upstream's metrics of its job controller.
type jobMetrics struct{ syncs, took, jobs, pods, tracked *metrics.Family }

func newCounts(all *metrics.Registry) jobMetrics {
	return jobMetrics{
		syncs: all.Counter("job_controller_job_syncs_total", "The number of job syncs", "completion_mode", "result", "action"),
		took: all.Histogram("job_controller_job_sync_duration_seconds", "The time it took to sync a job",
			metrics.LatencyBuckets(), "completion_mode", "result", "action"),
		jobs: all.Counter("job_controller_jobs_finished_total", "The number of finished jobs", "completion_mode", "result", "reason"),
		pods: all.Counter("job_controller_job_pods_finished_total", "The number of finished Pods that are fully tracked", "completion_mode", "result"),
		tracked: all.Counter("job_controller_terminated_pods_tracking_finalizer_total",
			"The number of terminated pods (phase=Failed|Succeeded) that have the finalizer batch.kubernetes.io/job-tracking. "+
				"The event label can be \"add\" or \"delete\".", "event"),
	}
}

// synced counts a sync of a Job that began at began, in wall-clock time.
func (c jobMetrics) synced(job *batchv1.Job, plan *Plan, err error, began time.Time) {
	result, action := "success", "reconciling"
	if err != nil {
		result = "error"
	}
	switch {
	case len(plan.Create) > 0:
		action = "pods_created"
	case len(plan.Delete) > 0:
		action = "pods_deleted"
	}
	c.syncs.Add(1, completionMode(job), result, action)
	c.took.Observe(clock.Clock{}.Since(began), completionMode(job), result, action)
}

// freed counts the pods that are no longer tracked.
func (c jobMetrics) freed(job *batchv1.Job, pods []*corev1.Pod) {
	for _, pod := range pods {
		result := "failed"
		if pod.Status.Phase == corev1.PodSucceeded {
			result = "succeeded"
		}
		c.pods.Add(1, completionMode(job), result)
		c.tracked.Add(1, "delete")
	}
}

// finished counts a Job that ended between before and now.
func (c jobMetrics) finished(before, now *batchv1.Job) {
	if IsFinished(before) || !IsFinished(now) {
		return
	}
	for _, condition := range now.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			c.jobs.Add(1, completionMode(now), "succeeded", "")
		case batchv1.JobFailed:
			c.jobs.Add(1, completionMode(now), "failed", condition.Reason)
		case batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
		}
	}
}

func completionMode(job *batchv1.Job) string {
	if job.Spec.CompletionMode == nil {
		return string(batchv1.NonIndexedCompletion)
	}
	return string(*job.Spec.CompletionMode)
}
