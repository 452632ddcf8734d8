// Package scheduler binds pods that have no node. decide.go says which node, and is pure;
// filter.go, topology.go, affinity.go and volumes.go say where a pod may not run, score.go where
// it had better, preempt.go who has to make room; controller.go watches, asks, and binds.
package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Decision is what to do with one pod that has no node.
type Decision struct {
	Outcome Outcome
	// Node to bind to, when the outcome is Bind; to keep for the pod, when it is Preempt; to
	// make volumes for, when it is Provision.
	Node string
	// Message of the FailedScheduling event, when the outcome is Wait, Preempt or Skip.
	Message string
	// Victims are pods that have to go first, when the outcome is Preempt.
	Victims []*corev1.Pod
	// Claims are to be told of the node, when the outcome is Provision.
	Claims []*corev1.PersistentVolumeClaim
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
	// Preempt asks pods of less priority to go, and then leaves the pod pending.
	Preempt
	// Provision chooses a node for volumes that wait for their first consumer, and then
	// leaves the pod pending until they are there.
	Provision
)

// World is what a decision is made in. Nodes must be sorted by name.
type World struct {
	Nodes []*NodeView
	// Namespaces has the labels of each, by its name.
	Namespaces map[string]map[string]string
	Storage    *Storage
	// Budgets tell whom to spare.
	Budgets map[types.UID]Budget
	// Nominated is the node on which room is being made for a pod, Going are the pods that
	// were asked to make it; both by UID.
	Nominated map[types.UID]string
	Going     map[types.UID]bool
	// From is the node to begin with; it moves on where not all nodes are looked at.
	From int
}

// The verdicts of a filter about a node.
const (
	// reasonNotReady is for clusters in which nobody taints nodes that are not ready.
	reasonNotReady      = "node(s) were not ready"
	reasonCordoned      = "node(s) were unschedulable"
	reasonTainted       = "node(s) had untolerated taint(s)"
	reasonNodeAffinity  = "node(s) didn't match Pod's node affinity/selector"
	reasonPorts         = "node(s) didn't have free ports for the requested pod ports"
	reasonTooMany       = "Too many pods"
	reasonOncePod       = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
	reasonVolumeNode    = "node(s) didn't match PersistentVolume's node affinity"
	reasonNoVolume      = "node(s) didn't find available persistent volumes to bind"
	reasonSpread        = "node(s) didn't match pod topology spread constraints"
	reasonSpreadLabel   = "node(s) didn't match pod topology spread constraints (missing required label)"
	reasonExistingAnti  = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonPodAffinity   = "node(s) didn't match pod affinity rules"
	reasonPodAnti       = "node(s) didn't match pod anti-affinity rules"
	reasonNotHelpful    = "Preemption is not helpful for scheduling"
	reasonNoVictims     = "No preemption victims found for incoming pod"
	messageUnbound      = "pod has unbound immediate PersistentVolumeClaims"
	messageNoNodes      = "no nodes available to schedule pods"
	messageNoDynamic    = "no new claims to deallocate, "
	messageStillGoing   = "not eligible due to a terminating pod on the nominated node."
	messageNeverPreempt = "not eligible due to preemptionPolicy=Never."
)

// Refusal is why a node does not take a pod. One that is not Final could end if pods of the
// node went.
type Refusal struct {
	Reasons []string
	Final   bool
}

// Decide picks the node for pod. Among the nodes that fit it takes the one with the best
// score, then the one with the fewest pods, then the first.
func Decide(pod *corev1.Pod, world World) Decision {
	switch {
	case pod.DeletionTimestamp != nil:
		return Decision{Outcome: Skip, Message: fmt.Sprintf("skip schedule deleting pod: %s/%s", pod.Namespace, pod.Name)}
	case len(pod.Spec.SchedulingGates) > 0:
		return Decision{Outcome: Gated}
	case len(world.Nodes) == 0:
		return Decision{Outcome: Wait, Message: messageNoNodes}
	}
	ask := newAsk(pod, world)
	if ask.impossible != "" {
		return Decision{Outcome: Wait, Message: fmt.Sprintf("0/%d nodes are available: %s. %s%s", len(world.Nodes), ask.impossible,
			messageNoDynamic, preemption(len(world.Nodes), map[string]int{reasonNotHelpful: len(world.Nodes)}))}
	}
	fitting, refusals := filter(ask, world)
	if len(fitting) == 0 {
		return unschedulable(ask, world, refusals)
	}
	best := choose(ask, world, fitting)
	if len(ask.volumes.delayed) > 0 {
		return Decision{Outcome: Provision, Node: best.Name, Claims: ask.volumes.delayed}
	}
	return Decision{Outcome: Bind, Node: best.Name}
}

// enough is how many nodes that fit are found before the best is chosen among them, out of
// all (numFeasibleNodesToFind).
func enough(all int) int {
	const least = 100
	if all <= least {
		return all
	}
	percentage := max(50-all/125, 5)
	return max(all*percentage/100, least)
}

// filter looks at nodes, beginning with the world's, until enough are found that fit. A node
// that was nominated for the pod is looked at alone first.
func filter(ask *ask, world World) (fitting []*NodeView, refusals map[string]Refusal) {
	refusals = map[string]Refusal{}
	if ask.nominated != "" {
		i, found := slices.BinarySearchFunc(world.Nodes, ask.nominated, func(n *NodeView, name string) int { return strings.Compare(n.Name, name) })
		if found && ask.refuse(world.Nodes[i]).Reasons == nil {
			return world.Nodes[i : i+1], refusals
		}
	}
	limit := enough(len(world.Nodes))
	if limit == len(world.Nodes) {
		world.From = 0
	}
	for i := range world.Nodes {
		node := world.Nodes[(world.From+i)%len(world.Nodes)]
		if refusal := ask.refuse(node); refusal.Reasons != nil {
			refusals[node.Name] = refusal
			continue
		}
		if fitting = append(fitting, node); len(fitting) == limit {
			break
		}
	}
	return fitting, refusals
}

// unschedulable tells why no node takes the pod, and looks for pods to take the place of.
func unschedulable(ask *ask, world World, refusals map[string]Refusal) Decision {
	reasons := map[string]int{}
	for _, refusal := range refusals {
		for _, reason := range refusal.Reasons {
			reasons[reason]++
		}
	}
	message := fmt.Sprintf("0/%d nodes are available: %s. ", len(world.Nodes), counted(reasons))
	if policy := ask.pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return Decision{Outcome: Wait, Message: message + messageNoDynamic + "preemption: " + messageNeverPreempt}
	}
	if waiting(ask, world) {
		return Decision{Outcome: Wait, Message: message + messageNoDynamic + "preemption: " + messageStillGoing}
	}
	found, verdicts := preempt(ask, world, refusals)
	if found == nil {
		return Decision{Outcome: Wait, Message: message + messageNoDynamic + preemption(len(world.Nodes), verdicts)}
	}
	return Decision{Outcome: Preempt, Node: found.node.Name, Victims: found.victims, Message: strings.TrimSuffix(message, " ")}
}

// preemption is upstream's second half of the message.
func preemption(nodes int, verdicts map[string]int) string {
	return fmt.Sprintf("preemption: 0/%d nodes are available: %s.", nodes, counted(verdicts))
}

// counted is upstream's list of reasons with their counts, sorted as text.
func counted(reasons map[string]int) string {
	texts := make([]string, 0, len(reasons))
	for reason, count := range reasons {
		texts = append(texts, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
