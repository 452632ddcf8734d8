// Package scheduler binds pods that have no node. decide.go says which node, and is
// pure; controller.go watches, asks it, and binds.
package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Decision is what to do with one pod that has no node.
type Decision struct {
	Outcome Outcome
	// Node to bind to, when the outcome is Bind.
	Node string
	// Message of the FailedScheduling event, when the outcome is Wait or Skip.
	Message string
}

// Outcome is the kind of a Decision.
type Outcome int

const (
	// Wait leaves the pod pending; it is tried again when something changes.
	Wait Outcome = iota
	// Bind assigns the pod to the decision's node.
	Bind
	// Skip drops the pod: it is being deleted (API-81).
	Skip
	// Gated leaves the pod alone until its scheduling gates are gone.
	Gated
)

// Decide picks the node for pod among nodes, which must be sorted by name. Among the
// nodes that fit it takes the one with the largest part of its resources free, then
// the one with the fewest pods, then the first by name.
func Decide(pod *corev1.Pod, nodes []*NodeView) Decision {
	if pod.DeletionTimestamp != nil {
		return Decision{Outcome: Skip, Message: fmt.Sprintf("skip schedule deleting pod: %s/%s", pod.Namespace, pod.Name)}
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return Decision{Outcome: Gated}
	}
	var best *NodeView
	reasons := map[string]int{}
	need := Requests(pod)
	for _, node := range nodes {
		if refusals := refuse(pod, need, node); len(refusals) > 0 {
			for _, reason := range refusals {
				reasons[reason]++
			}
			continue
		}
		if best == nil || better(need, node, best) {
			best = node
		}
	}
	if best == nil {
		return Decision{Outcome: Wait, Message: unschedulable(len(nodes), reasons)}
	}
	return Decision{Outcome: Bind, Node: best.Name}
}

// refuse lists why the pod may not run on the node, in upstream's words; nil when it
// may. A filter that fails ends the list, except that every short resource is named.
func refuse(pod *corev1.Pod, need Resources, node *NodeView) []string {
	switch {
	case !node.Ready:
		return []string{"node(s) were not ready"}
	case node.Object.Spec.Unschedulable && !toleratesUnschedulable(pod):
		return []string{"node(s) were unschedulable"}
	}
	if taint, found := corev1helpers.FindMatchingUntoleratedTaint(
		noLogger(), node.Object.Spec.Taints, pod.Spec.Tolerations, blocksScheduling, false); found {
		return []string{fmt.Sprintf("node(s) had untolerated taint(s) {%s: %s}", taint.Key, taint.Value)}
	}
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node.Object); err != nil || !fits {
		return []string{"node(s) didn't match Pod's node affinity/selector"}
	}
	for _, port := range hostPorts(pod) {
		if node.Ports[port] > 0 {
			return []string{"node(s) didn't have free ports for the requested pod ports"}
		}
	}
	return short(need, node)
}

// short names every resource of which the node has too little left.
func short(need Resources, node *NodeView) []string {
	var lacking []string
	if node.Used.Pods+1 > node.Allocatable.Pods {
		lacking = append(lacking, "Too many pods")
	}
	if need.MilliCPU > 0 && node.Used.MilliCPU+need.MilliCPU > node.Allocatable.MilliCPU {
		lacking = append(lacking, "Insufficient cpu")
	}
	if need.Memory > 0 && node.Used.Memory+need.Memory > node.Allocatable.Memory {
		lacking = append(lacking, "Insufficient memory")
	}
	return lacking
}

func blocksScheduling(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

func toleratesUnschedulable(pod *corev1.Pod) bool {
	return corev1helpers.TolerationsTolerateTaint(noLogger(), pod.Spec.Tolerations, &corev1.Taint{
		Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule,
	}, false)
}

// better reports whether node a suits need better than b.
func better(need Resources, a, b *NodeView) bool {
	return cmp.Or(
		cmp.Compare(free(need, b), free(need, a)),
		cmp.Compare(a.Used.Pods, b.Used.Pods),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// free is the mean part of CPU and memory, in per mille, that the node would have
// left with the pod on it.
func free(need Resources, node *NodeView) int64 {
	return (left(node.Allocatable.MilliCPU, node.Used.MilliCPU+need.MilliCPU) +
		left(node.Allocatable.Memory, node.Used.Memory+need.Memory)) / 2
}

func left(have, used int64) int64 {
	if have <= 0 || used > have {
		return 0
	}
	return (have - used) * 1000 / have
}

// unschedulable is upstream's message: the reasons with their counts, sorted.
func unschedulable(nodes int, reasons map[string]int) string {
	if nodes == 0 {
		return "no nodes available to schedule pods"
	}
	texts := make([]string, 0, len(reasons))
	for reason, count := range reasons {
		texts = append(texts, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(texts)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(texts, ", "))
}
