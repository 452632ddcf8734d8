package scheduler

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// ask is a pod with everything about it that does not depend on the node.
type ask struct {
	pod      *corev1.Pod
	priority int32
	need     Resources
	ports    []HostPort
	affinity nodeaffinity.RequiredNodeAffinity
	// selects is whether affinity asks for anything.
	selects bool
	spread  spread
	terms   terms
	volumes volumes
	// nominated is the node on which room is being made for the pod; empty for none.
	nominated string
	// impossible is why no node can take the pod; empty when one may.
	impossible string
}

// newAsk reads a pod before it is held against nodes.
func newAsk(pod *corev1.Pod, world World) *ask {
	a := &ask{
		pod: pod, priority: Priority(pod), need: Requests(pod), ports: hostPorts(pod),
		affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
	}
	a.selects = len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
	a.nominated = cmp.Or(world.Nominated[pod.UID], pod.Status.NominatedNodeName)
	a.volumes, a.impossible = readVolumes(pod, world)
	if a.impossible == "" {
		a.spread = readSpread(a, world)
		a.terms = readTerms(pod, world)
	}
	return a
}

// refuse says why the pod may not run on the node, in upstream's words and the order of its
// plugins; no reasons when it may. A filter that fails ends the list, except that every short
// resource is named.
func (a *ask) refuse(node *NodeView) Refusal {
	final := func(reason string) Refusal { return Refusal{Reasons: []string{reason}, Final: true} }
	spec := &a.pod.Spec
	switch {
	case node.Object.Spec.Unschedulable && !tolerates(spec.Tolerations, corev1.TaintNodeUnschedulable):
		return final(reasonCordoned)
	case untolerated(spec.Tolerations, node.Object.Spec.Taints):
		return final(reasonTainted)
	case !node.Ready && !tolerates(spec.Tolerations, corev1.TaintNodeNotReady):
		return final(reasonNotReady)
	case a.selects && !a.matches(node.Object):
		return final(reasonNodeAffinity)
	}
	for _, port := range a.ports {
		if node.Ports[port] > 0 {
			return Refusal{Reasons: []string{reasonPorts}}
		}
	}
	if refusal := a.short(node); refusal.Reasons != nil {
		return refusal
	}
	if refusal := a.volumes.refuse(node); refusal.Reasons != nil {
		return refusal
	}
	if refusal := a.spread.refuse(node); refusal.Reasons != nil {
		return refusal
	}
	return a.terms.refuse(node)
}

func (a *ask) matches(node *corev1.Node) bool {
	fits, err := a.affinity.Match(node)
	return err == nil && fits
}

// short names every resource of which the node has too little left; that is final where all of
// it would not be enough.
func (a *ask) short(node *NodeView) Refusal {
	used := node.Used
	if len(node.Nominated) > 0 {
		used.Others = maps.Clone(used.Others)
	}
	for uid, nominated := range node.Nominated {
		if uid != a.pod.UID && Priority(nominated) >= a.priority {
			used.add(Requests(nominated), 1)
		}
	}
	var lacking Refusal
	check := func(need, taken, have int64, reason string) {
		if need > 0 && taken+need > have {
			lacking.Reasons = append(lacking.Reasons, reason)
			lacking.Final = lacking.Final || need > have
		}
	}
	check(1, used.Pods, node.Allocatable.Pods, reasonTooMany)
	check(a.need.MilliCPU, used.MilliCPU, node.Allocatable.MilliCPU, "Insufficient cpu")
	check(a.need.Memory, used.Memory, node.Allocatable.Memory, "Insufficient memory")
	for _, name := range a.need.names() {
		check(a.need.Others[name], used.Others[name], node.Allocatable.Others[name], "Insufficient "+string(name))
	}
	return lacking
}

func untolerated(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	if len(taints) == 0 {
		return false
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(noLogger(), taints, tolerations, blocksScheduling, true)
	return found
}

func blocksScheduling(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// tolerates reports whether a NoSchedule taint of that key would be tolerated.
func tolerates(tolerations []corev1.Toleration, key string) bool {
	return len(tolerations) > 0 && corev1helpers.TolerationsTolerateTaint(noLogger(), tolerations, &corev1.Taint{
		Key: key, Effect: corev1.TaintEffectNoSchedule,
	}, true)
}

// Priority is the pod's, 0 when nobody has said.
func Priority(pod *corev1.Pod) int32 { return corev1helpers.PodPriority(pod) }
