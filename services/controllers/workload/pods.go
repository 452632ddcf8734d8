// Package workload has the rules that the controllers of pods share: which pods count, which are
// deleted first, how a pod is made from a template, which controller owns a pod, and what a
// controller still expects to see. It is pure except for [Expectations], which have a lock.
package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsFinished reports whether the pod's phase is terminal.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsActive reports whether a pod counts for its workload: it is neither finished nor being deleted
// (CTL-30, IsPodActive).
func IsActive(pod *corev1.Pod) bool { return !IsFinished(pod) && pod.DeletionTimestamp == nil }

// IsTerminating reports whether a pod is being deleted and may still run (CTL-30,
// IsPodTerminating).
func IsTerminating(pod *corev1.Pod) bool { return !IsFinished(pod) && pod.DeletionTimestamp != nil }

// IsReady reports whether the pod's condition Ready is true.
func IsReady(pod *corev1.Pod) bool {
	condition := condition(pod, corev1.PodReady)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// ReadySince returns when the pod became ready; the zero time if it is not ready.
func ReadySince(pod *corev1.Pod) time.Time {
	if condition := condition(pod, corev1.PodReady); condition != nil && condition.Status == corev1.ConditionTrue {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// UnreadySince returns since when the pod's condition Ready is false; the zero time if it is not
// false.
func UnreadySince(pod *corev1.Pod) time.Time {
	if condition := condition(pod, corev1.PodReady); condition != nil && condition.Status == corev1.ConditionFalse {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// AvailableIn returns the time from now until a ready pod has been ready for minReady seconds; 0 if
// it has been, and -1 if the pod is not ready.
func AvailableIn(pod *corev1.Pod, minReady int32, now time.Time) time.Duration {
	if !IsReady(pod) {
		return -1
	}
	if minReady <= 0 {
		return 0
	}
	since := ReadySince(pod)
	if since.IsZero() {
		return -1
	}
	return Remaining(since, time.Duration(minReady)*time.Second, now)
}

// Remaining returns what remains at now of a wait that began at since, a time from an object. It is
// never more than the whole wait, however wrong a clock is or was.
func Remaining(since time.Time, whole time.Duration, now time.Time) time.Duration {
	return min(max(since.Add(whole).Sub(now), 0), whole)
}

// IsAvailable reports whether the pod has been ready for minReady seconds (IsPodAvailable).
func IsAvailable(pod *corev1.Pod, minReady int32, now time.Time) bool {
	return AvailableIn(pod, minReady, now) == 0
}

// NextAvailable returns the time until the next ready pod is available; 0 if none will be.
func NextAvailable(pods []*corev1.Pod, minReady int32, now time.Time) time.Duration {
	var next time.Duration
	for _, pod := range pods {
		if left := AvailableIn(pod, minReady, now); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Stamp returns a time as the API stores it, in whole seconds.
func Stamp(at time.Time) metav1.Time { return metav1.Time{Time: at.Truncate(time.Second)} }
