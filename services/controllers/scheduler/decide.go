// Package scheduler binds pods that have no node. decide.go chooses the node, and is pure.
// filter.go, topology.go, affinity.go and volumes.go reject nodes, score.go ranks the rest, and
// preempt.go selects the pods that have to make room. controller.go watches, sends requests, and
// binds.
package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Decision is what to do with one pod without a node.
type Decision struct {
	Outcome Outcome
	// Node to bind to (Bind), to nominate (Preempt), or to make volumes for (Provision).
	Node string
	// Message of the FailedScheduling event (Wait, Preempt, Skip).
	Message string
	// Victims are the pods to delete first (Preempt).
	Victims []*corev1.Pod
	// Claims are to be annotated with the node (Provision).
	Claims []*corev1.PersistentVolumeClaim
}

// Outcome is the kind of a Decision.
type Outcome int

const (
	// Wait leaves the pod pending until a change could help it.
	Wait Outcome = iota
	// Bind assigns the pod to the decision's node.
	Bind
	// Skip drops the pod, because it is terminating (API-81).
	Skip
	// Gated leaves the pod alone until its scheduling gates are gone.
	Gated
	// Preempt deletes pods of lower priority, and leaves the pod pending.
	Preempt
	// Provision chooses a node for volumes that wait for their first consumer, and leaves the pod
	// pending until they exist.
	Provision
)

// World is the input of a decision. Nodes must be sorted by name.
type World struct {
	Nodes []*NodeView
	// Namespaces has the labels of each namespace, by its name.
	Namespaces map[string]map[string]string
	Storage    *Storage
	// Budgets limit which pods preemption should delete.
	Budgets map[types.UID]Budget
	// Nominated is the node that victims are leaving for a pod; Preempted are the victims. Both are
	// by UID.
	Nominated map[types.UID]string
	Preempted map[types.UID]bool
	// StartNodeIndex is the node to check first. It moves on if not all nodes are checked
	// (nextStartNodeIndex).
	StartNodeIndex int
}

// The reasons and messages of an unschedulable pod, in upstream's words.
const (
	// reasonNotReady is for clusters in which no controller taints nodes that are not ready.
	reasonNotReady           = "node(s) were not ready"
	reasonCordoned           = "node(s) were unschedulable"
	reasonTainted            = "node(s) had untolerated taint(s)"
	reasonNodeAffinity       = "node(s) didn't match Pod's node affinity/selector"
	reasonPorts              = "node(s) didn't have free ports for the requested pod ports"
	reasonTooManyPods        = "Too many pods"
	reasonReadWriteOncePod   = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
	reasonVolumeNode         = "node(s) didn't match PersistentVolume's node affinity"
	reasonNoVolume           = "node(s) didn't find available persistent volumes to bind"
	reasonSpread             = "node(s) didn't match pod topology spread constraints"
	reasonSpreadLabel        = "node(s) didn't match pod topology spread constraints (missing required label)"
	reasonExistingAnti       = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonPodAffinity        = "node(s) didn't match pod affinity rules"
	reasonPodAnti            = "node(s) didn't match pod anti-affinity rules"
	reasonNotHelpful         = "Preemption is not helpful for scheduling"
	reasonNoVictims          = "No preemption victims found for incoming pod"
	messageUnbound           = "pod has unbound immediate PersistentVolumeClaims"
	messageNoNodes           = "no nodes available to schedule pods"
	messageNoDynamic         = "no new claims to deallocate, "
	messageVictimTerminating = "not eligible due to a terminating pod on the nominated node."
	messageNeverPreempt      = "not eligible due to preemptionPolicy=Never."
)

// Refusal is why a node does not fit a pod. Unless it is Unresolvable, preempting pods of the node
// could help (UnschedulableAndUnresolvable).
type Refusal struct {
	Reasons      []string
	Unresolvable bool
}

// Decide picks the node for the pod. Among the feasible nodes it takes the best score, then the
// fewest pods, then the first name.
func Decide(pod *corev1.Pod, world World) Decision {
	switch {
	case pod.DeletionTimestamp != nil:
		return Decision{Outcome: Skip, Message: fmt.Sprintf("skip schedule deleting pod: %s/%s", pod.Namespace, pod.Name)}
	case len(pod.Spec.SchedulingGates) > 0:
		return Decision{Outcome: Gated}
	case len(world.Nodes) == 0:
		return Decision{Outcome: Wait, Message: messageNoNodes}
	}
	info := newPodInfo(pod, world)
	if info.unresolvable != "" {
		return Decision{Outcome: Wait, Message: fmt.Sprintf("0/%d nodes are available: %s. %s%s", len(world.Nodes), info.unresolvable,
			messageNoDynamic, preemptionMessage(len(world.Nodes), map[string]int{reasonNotHelpful: len(world.Nodes)}))}
	}
	fitting, refusals := findFeasibleNodes(info, world)
	if len(fitting) == 0 {
		return decideUnschedulable(info, world, refusals)
	}
	best := chooseBest(info, world, fitting)
	if len(info.volumes.delayed) > 0 {
		return Decision{Outcome: Provision, Node: best.Name, Claims: info.volumes.delayed}
	}
	return Decision{Outcome: Bind, Node: best.Name}
}

// numFeasibleNodesToFind is how many feasible nodes, out of all, are found before the best is
// chosen.
func numFeasibleNodesToFind(all int) int {
	const least = 100
	if all <= least {
		return all
	}
	percentage := max(50-all/125, 5)
	return max(all*percentage/100, least)
}

// findFeasibleNodes checks nodes, beginning with the start node, until it has found as many
// feasible ones as numFeasibleNodesToFind says. It checks a nominated node alone first.
func findFeasibleNodes(info *podInfo, world World) (fitting []*NodeView, refusals map[string]Refusal) {
	refusals = map[string]Refusal{}
	if info.nominatedNode != "" {
		i, found := slices.BinarySearchFunc(world.Nodes, info.nominatedNode, func(n *NodeView, name string) int { return strings.Compare(n.Name, name) })
		if found && info.checkNode(world.Nodes[i]).Reasons == nil {
			return world.Nodes[i : i+1], refusals
		}
	}
	limit := numFeasibleNodesToFind(len(world.Nodes))
	if limit == len(world.Nodes) {
		world.StartNodeIndex = 0
	}
	for i := range world.Nodes {
		node := world.Nodes[(world.StartNodeIndex+i)%len(world.Nodes)]
		if refusal := info.checkNode(node); refusal.Reasons != nil {
			refusals[node.Name] = refusal
			continue
		}
		if fitting = append(fitting, node); len(fitting) == limit {
			break
		}
	}
	return fitting, refusals
}

// decideUnschedulable says why no node fits the pod, and looks for pods to preempt.
func decideUnschedulable(info *podInfo, world World, refusals map[string]Refusal) Decision {
	reasons := map[string]int{}
	for _, refusal := range refusals {
		for _, reason := range refusal.Reasons {
			reasons[reason]++
		}
	}
	message := fmt.Sprintf("0/%d nodes are available: %s. ", len(world.Nodes), formatReasons(reasons))
	if policy := info.pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return Decision{Outcome: Wait, Message: message + messageNoDynamic + "preemption: " + messageNeverPreempt}
	}
	if hasTerminatingVictims(info, world) {
		return Decision{Outcome: Wait, Message: message + messageNoDynamic + "preemption: " + messageVictimTerminating}
	}
	found, verdicts := findCandidate(info, world, refusals)
	if found == nil {
		return Decision{Outcome: Wait, Message: message + messageNoDynamic + preemptionMessage(len(world.Nodes), verdicts)}
	}
	return Decision{Outcome: Preempt, Node: found.node.Name, Victims: found.victims, Message: strings.TrimSuffix(message, " ")}
}

// preemptionMessage is the second half of upstream's message.
func preemptionMessage(nodes int, verdicts map[string]int) string {
	return fmt.Sprintf("preemption: 0/%d nodes are available: %s.", nodes, formatReasons(verdicts))
}

// formatReasons is upstream's list of reasons with their counts, sorted as text.
func formatReasons(reasons map[string]int) string {
	texts := make([]string, 0, len(reasons))
	for reason, count := range reasons {
		texts = append(texts, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
