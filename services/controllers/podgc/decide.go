// Package podgc removes pods that no other component removes: pods on nodes that are gone, deleted
// pods that were never scheduled, pods on nodes that are out of service, and the oldest of too many
// terminal pods (CTL-10 to CTL-14). decide.go selects them; controller.go runs it every 20 s.
package podgc

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Period is the time between two looks, Quarantine how long a node must be missed
// before its pods go.
const (
	// Period is the time between two collections. Quarantine is how long a node must be missing
	// before its pods are removed.
	Period     = 20 * time.Second
	Quarantine = 40 * time.Second
)

// DefaultThreshold is how many terminal pods are kept.
const DefaultThreshold = 12500

// View is the state that the collector decides on.
type View struct {
	Pods  []*corev1.Pod
	Nodes map[string]*corev1.Node
	// Threshold is how many terminal pods are kept; 0 or less keeps all.
	Threshold int
	// MissingSince has the nodes that pods name and that do not exist, and since when.
	MissingSince map[string]time.Time
}

// Removal is one pod to remove. It is set to Failed first if it is not terminal (CTL-14).
type Removal struct {
	Pod *corev1.Pod
	// Orphaned asks for the condition DisruptionTarget.
	Orphaned bool
}

// Plan is the result of Decide.
type Plan struct {
	Removals []Removal
	// MissingSince is View.MissingSince for the next collection.
	MissingSince map[string]time.Time
	// Suspects are nodes that have been missing for long enough. If the API confirms that they are
	// gone, their pods are removed; see Orphans.
	Suspects []string
}

// Decide returns which pods to remove at now (gc).
func Decide(view View, now time.Time) Plan {
	plan := Plan{MissingSince: map[string]time.Time{}}
	plan.add(excessTerminal(view.Pods, view.Threshold), Removal{})
	for _, pod := range view.Pods {
		node := view.Nodes[pod.Spec.NodeName]
		switch {
		case pod.DeletionTimestamp != nil && node != nil && isOutOfService(node):
			plan.add([]*corev1.Pod{pod}, Removal{}) // CTL-12
		case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
			plan.add([]*corev1.Pod{pod}, Removal{}) // CTL-11
		case pod.Spec.NodeName != "" && node == nil:
			since, known := view.MissingSince[pod.Spec.NodeName]
			if !known {
				since = now
			}
			plan.MissingSince[pod.Spec.NodeName] = since
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plan.MissingSince)) {
		if now.Sub(plan.MissingSince[name]) >= Quarantine {
			plan.Suspects = append(plan.Suspects, name)
		}
	}
	return plan
}

// Orphans returns the removals of the pods on nodes that are gone (CTL-10).
func Orphans(pods []*corev1.Pod, gone []string) []Removal {
	var removals []Removal
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && slices.Contains(gone, pod.Spec.NodeName) {
			removals = append(removals, Removal{Pod: pod, Orphaned: true})
		}
	}
	return removals
}

func (p *Plan) add(pods []*corev1.Pod, like Removal) {
	for _, pod := range pods {
		if slices.ContainsFunc(p.Removals, func(r Removal) bool { return r.Pod.UID == pod.UID }) {
			continue
		}
		like.Pod = pod
		p.Removals = append(p.Removals, like)
	}
}

// excessTerminal returns the terminal pods above the threshold: evicted ones first, then the oldest
// (CTL-13).
func excessTerminal(pods []*corev1.Pod, threshold int) []*corev1.Pod {
	if threshold <= 0 {
		return nil
	}
	var terminal []*corev1.Pod
	for _, pod := range pods {
		if IsTerminal(pod) {
			terminal = append(terminal, pod)
		}
	}
	if len(terminal) <= threshold {
		return nil
	}
	slices.SortFunc(terminal, func(a, b *corev1.Pod) int {
		return cmp.Or(
			-compareBool(isEvicted(a), isEvicted(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return terminal[:len(terminal)-threshold]
}

// IsTerminal reports whether the pod's phase is terminal.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isEvicted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// isOutOfService reports whether a node is not ready and has the out-of-service taint.
func isOutOfService(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return false
		}
	}
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeOutOfService })
}
