// Package tainteviction deletes pods from nodes whose NoExecute taints they do not
// tolerate, at once or when their toleration is used up (CTL-05, CTL-06). decide.go says
// when; controller.go keeps the times.
package tainteviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Forever is the toleration that never ends.
const Forever = time.Duration(1<<63 - 1)

// NoExecute are the taints that drive pods away.
func NoExecute(taints []corev1.Taint) []corev1.Taint {
	var found []corev1.Taint
	for _, taint := range taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			found = append(found, taint)
		}
	}
	return found
}

// Concerns reports whether a change of a pod is about how long it may stay on its node; of a
// new one old is nil.
func Concerns(old, now *corev1.Pod) bool {
	return old == nil || old.Spec.NodeName != now.Spec.NodeName || !slices.EqualFunc(old.Spec.Tolerations, now.Spec.Tolerations, same)
}

// same reports whether two tolerations are of the same, for the same time.
func same(a, b corev1.Toleration) bool {
	if a.TolerationSeconds == nil || b.TolerationSeconds == nil {
		return a.MatchToleration(&b) && a.TolerationSeconds == b.TolerationSeconds
	}
	return a.MatchToleration(&b) && *a.TolerationSeconds == *b.TolerationSeconds
}

// Outcome is what becomes of a pod's scheduled deletion.
type Outcome int

// The outcomes.
const (
	// Cancel takes back a deletion that is scheduled, if there is one.
	Cancel Outcome = iota
	// Schedule plans a deletion at Decision.At.
	Schedule
	// Keep leaves what is scheduled as it is.
	Keep
)

// Decision is about one pod.
type Decision struct {
	Outcome Outcome
	At      time.Time
}

// Decide says when a pod is to be deleted that is on a node with these taints, if ever.
// scheduled is when it is going to be, zero for not at all (processPodOnNode).
func Decide(tolerations []corev1.Toleration, taints []corev1.Taint, scheduled, now time.Time) Decision {
	taints = NoExecute(taints)
	if len(taints) == 0 {
		return Decision{Outcome: Cancel}
	}
	used, all := tolerated(tolerations, taints)
	if !all {
		return Decision{Outcome: Schedule, At: now}
	}
	least := Least(used)
	switch {
	case least == Forever:
		return Decision{Outcome: Cancel}
	case !scheduled.IsZero(): // a later toleration neither postpones it nor brings it forward
		return Decision{Outcome: Keep, At: scheduled}
	}
	return Decision{Outcome: Schedule, At: now.Add(least)}
}

// Least is the shortest finite time that is tolerated; Forever when none is finite, 0
// when there are no tolerations or one is not positive (getMinTolerationTime).
func Least(tolerations []corev1.Toleration) time.Duration {
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
