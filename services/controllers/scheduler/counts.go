package scheduler

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// counts are upstream's metrics of its scheduler.
type counts struct {
	attempts, pending, preemptions, victims *metrics.Family
	attempt, scheduled                      *metrics.Family
}

// profile is the one that there is.
const profile = corev1.DefaultSchedulerName

// The results of an attempt.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
)

func newCounts(all *metrics.Registry) counts {
	return counts{
		attempts: all.Counter("scheduler_schedule_attempts_total",
			"Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
			"result", "profile"),
		pending: all.Gauge("scheduler_pending_pods",
			"Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; "+
				"'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed.", "queue"),
		preemptions: all.Counter("scheduler_preemption_attempts_total", "Total preemption attempts in the cluster till now"),
		victims:     all.Counter("scheduler_preemption_victims_total", "Pods that were asked to make room for others."),
		attempt: all.Histogram("scheduler_scheduling_attempt_duration_seconds",
			"Scheduling attempt latency in seconds (scheduling algorithm + binding)", metrics.LatencyBuckets(), "result", "profile"),
		scheduled: all.Histogram("scheduler_pod_scheduling_sli_duration_seconds",
			"E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
			metrics.LatencyBuckets(), "attempts"),
	}
}

// attempted counts an attempt that began at an instant of the wall.
func (c counts) attempted(result string, began time.Time) {
	c.attempts.Add(1, result, profile)
	c.attempt.Observe(clock.Clock{}.Since(began), result, profile)
}

// mostAttempts is the last that has a label of its own.
const mostAttempts = 15

// bound counts a pod that has its node after so many attempts, and so long, in cluster time,
// after it was made.
func (c counts) bound(attempts int, took time.Duration) {
	label := strconv.Itoa(attempts)
	if attempts > mostAttempts {
		label = strconv.Itoa(mostAttempts) + "+"
	}
	c.scheduled.Observe(took, label)
}

// waits tells how many pods wait. None is in upstream's backoffQ: who was refused waits for a
// change, not for a time.
func (c counts) waits(active, unschedulable int) {
	c.pending.Set(float64(active), "active")
	c.pending.Set(0, "backoff")
	c.pending.Set(float64(unschedulable), "unschedulable")
}
