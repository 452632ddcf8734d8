// Package shutdown ends a node's pods before the node goes down, by priority: ordinary pods
// first, those that the system needs last (KBL-83). plan.go is pure; shutdown.go waits for
// the word, which is the fault node.shutdown, and carries the plan out.
package shutdown

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Level is how long pods of at least a priority have, in cluster time.
type Level struct {
	Priority int32
	Grace    time.Duration
}

// criticalPriority is the least priority of pods that the system needs.
const criticalPriority int32 = 2_000_000_000

// Levels returns the levels of a node that shuts down within total. The last part of it is kept for
// critical pods.
func Levels(total, critical time.Duration) []Level {
	return []Level{{0, total - critical}, {criticalPriority, critical}}
}

// Batch is the pods of one level, which end together.
type Batch struct {
	Grace time.Duration
	Pods  []*corev1.Pod
}

// Plan returns the batches, in the order in which they end.
func Plan(pods []*corev1.Pod, levels []Level) []Batch {
	levels = slices.SortedFunc(slices.Values(levels), func(a, b Level) int { return cmp.Compare(a.Priority, b.Priority) })
	batches := make([]Batch, len(levels))
	for i, level := range levels {
		batches[i].Grace = level.Grace
	}
	for _, pod := range pods {
		last := 0
		for i, level := range levels {
			if podstate.Priority(pod) >= level.Priority {
				last = i
			}
		}
		batches[last].Pods = append(batches[last].Pods, pod)
	}
	return slices.DeleteFunc(batches, func(b Batch) bool { return len(b.Pods) == 0 })
}

// grace returns the grace of a pod in seconds: its own, or the batch's if that is less.
func (b Batch) grace(pod *corev1.Pod) int64 {
	most := int64(b.Grace / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < most {
		return *own
	}
	return most
}
