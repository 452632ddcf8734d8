// Package tainteviction deletes pods from nodes with NoExecute taints that they do not tolerate, at
// once or when their toleration ends (CTL-05, CTL-06). decide.go says when; controller.go keeps the
// times.
package tainteviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Forever is a toleration without an end.
const Forever = time.Duration(1<<63 - 1)

// NoExecuteTaints returns the taints that evict pods.
func NoExecuteTaints(taints []corev1.Taint) []corev1.Taint {
	var found []corev1.Taint
	for _, taint := range taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			found = append(found, taint)
		}
	}
	return found
}

// AffectsEviction reports whether a change of a pod affects how long it may stay on its node. old
// is nil for a new pod.
func AffectsEviction(old, now *corev1.Pod) bool {
	return old == nil || old.Spec.NodeName != now.Spec.NodeName || !slices.EqualFunc(old.Spec.Tolerations, now.Spec.Tolerations, sameToleration)
}

// sameToleration reports whether two tolerations match and have the same time.
func sameToleration(a, b corev1.Toleration) bool {
	if a.TolerationSeconds == nil || b.TolerationSeconds == nil {
		return a.MatchToleration(&b) && a.TolerationSeconds == b.TolerationSeconds
	}
	return a.MatchToleration(&b) && *a.TolerationSeconds == *b.TolerationSeconds
}

// Outcome is what happens to a pod's scheduled deletion.
type Outcome int

// The outcomes.
const (
	// Cancel cancels a scheduled deletion, if there is one.
	Cancel Outcome = iota
	// Schedule plans a deletion at Decision.At.
	Schedule
	// Keep leaves the schedule unchanged.
	Keep
)

// Decision is the decision about one pod.
type Decision struct {
	Outcome Outcome
	At      time.Time
}

// Decide says when a pod on a node with these taints is to be deleted, if ever. scheduled is the
// present schedule; zero means none (processPodOnNode).
func Decide(tolerations []corev1.Toleration, taints []corev1.Taint, scheduled, now time.Time) Decision {
	taints = NoExecuteTaints(taints)
	if len(taints) == 0 {
		return Decision{Outcome: Cancel}
	}
	used, all := matchTolerations(tolerations, taints)
	if !all {
		return Decision{Outcome: Schedule, At: now}
	}
	least := MinTolerationTime(used)
	switch {
	case least == Forever:
		return Decision{Outcome: Cancel}
	case !scheduled.IsZero(): // a later toleration neither postpones it nor brings it forward
		return Decision{Outcome: Keep, At: scheduled}
	}
	return Decision{Outcome: Schedule, At: now.Add(least)}
}

// MinTolerationTime returns the shortest finite toleration; Forever if none is finite, 0 if there
// are no tolerations or one is not positive (getMinTolerationTime).
func MinTolerationTime(tolerations []corev1.Toleration) time.Duration {
	if len(tolerations) == 0 {
		return 0
	}
	least := Forever
	for _, toleration := range tolerations {
		if seconds := toleration.TolerationSeconds; seconds != nil {
			least = min(least, time.Duration(min(max(*seconds, 0), int64(Forever/time.Second)))*time.Second)
		}
	}
	return least
}
