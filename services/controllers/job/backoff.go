package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Failures is how many pods have failed since the last success, and when the last one failed.
type Failures struct {
	Count int
	Last  time.Time
}

// The pause after a failure: 10 s, twice as long after each more, up to 10 min.
const (
	// firstPause is the pause after a failure. Each further failure doubles it, up to maxPause.
	firstPause = 10 * time.Second
	maxPause   = 10 * time.Minute
)

// remainingPause returns how long no pod is to be created after the failures.
func (f Failures) remainingPause(now time.Time) time.Duration {
	if f.Count == 0 {
		return 0
	}
	pause := firstPause
	for range f.Count - 1 {
		if pause = min(2*pause, maxPause); pause == maxPause {
			break
		}
	}
	return workload.Remaining(f.Last, pause, now)
}

// after returns the failures after more pods have ended, in the order of their ends. An end after
// now counts as now, however far ahead the clock was that wrote it; upstream waits until that time.
func (f Failures) after(ended []*corev1.Pod, now time.Time) Failures {
	ended = slices.Clone(ended)
	slices.SortStableFunc(ended, func(a, b *corev1.Pod) int { return endTime(a, now).Compare(endTime(b, now)) })
	for _, pod := range ended {
		if pod.Status.Phase == corev1.PodSucceeded {
			f = Failures{}
			continue
		}
		f = Failures{Count: f.Count + 1, Last: minTime(endTime(pod, now), now)}
	}
	return f
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// endTime returns when a pod ended: when its last container ended, or it became unready, or it was
// deleted, or else now (getFinishedTime, which falls back on the pod's creation).
func endTime(pod *corev1.Pod, now time.Time) time.Time {
	var last time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated != nil && status.State.Terminated.FinishedAt.After(last) {
			last = status.State.Terminated.FinishedAt.Time
		}
	}
	switch unready := workload.UnreadySince(pod); {
	case !last.IsZero():
		return last
	case !unready.IsZero():
		return unready
	case pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil:
		return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	return now
}
