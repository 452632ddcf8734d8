package scheduler

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// schedulerMetrics are upstream's metrics of its scheduler.
type schedulerMetrics struct {
	attempts, pending, preemptions, victims *metrics.Family
	attemptDuration, schedulingDuration     *metrics.Family
}

// profileName is the only profile.
const profileName = corev1.DefaultSchedulerName

// The results of an attempt.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
)

func newSchedulerMetrics(all *metrics.Registry) schedulerMetrics {
	return schedulerMetrics{
		attempts: all.Counter("scheduler_schedule_attempts_total",
			"Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
			"result", "profile"),
		pending: all.Gauge("scheduler_pending_pods",
			"Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; "+
				"'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed.", "queue"),
		preemptions: all.Counter("scheduler_preemption_attempts_total", "Total preemption attempts in the cluster till now"),
		victims:     all.Counter("scheduler_preemption_victims_total", "Pods that were asked to make room for others."),
		attemptDuration: all.Histogram("scheduler_scheduling_attempt_duration_seconds",
			"Scheduling attempt latency in seconds (scheduling algorithm + binding)", metrics.LatencyBuckets(), "result", "profile"),
		schedulingDuration: all.Histogram("scheduler_pod_scheduling_sli_duration_seconds",
			"E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
			metrics.LatencyBuckets(), "attempts"),
	}
}

// recordAttempt counts an attempt that began at a wall-clock time.
func (c schedulerMetrics) recordAttempt(result string, began time.Time) {
	c.attempts.Add(1, result, profileName)
	c.attemptDuration.Observe(clock.Clock{}.Since(began), result, profileName)
}

// maxAttemptsLabel is the highest number of attempts with a label of its own.
const maxAttemptsLabel = 15

// recordBound counts a pod that was bound after so many attempts, and so long, in cluster time,
// after its creation.
func (c schedulerMetrics) recordBound(attempts int, took time.Duration) {
	label := strconv.Itoa(attempts)
	if attempts > maxAttemptsLabel {
		label = strconv.Itoa(maxAttemptsLabel) + "+"
	}
	c.schedulingDuration.Observe(took, label)
}

// setPending sets the number of pending pods. Nothing is in upstream's backoffQ: an unschedulable
// pod waits for a change, not for a time.
func (c schedulerMetrics) setPending(active, unschedulable int) {
	c.pending.Set(float64(active), "active")
	c.pending.Set(0, "backoff")
	c.pending.Set(float64(unschedulable), "unschedulable")
}
