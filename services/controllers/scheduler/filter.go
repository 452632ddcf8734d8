package scheduler

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// podInfo is a pod with everything about it that does not depend on the node.
type podInfo struct {
	pod      *corev1.Pod
	priority int32
	requests Resources
	ports    []HostPort
	affinity nodeaffinity.RequiredNodeAffinity
	// hasAffinity is whether the pod has a node selector or node affinity.
	hasAffinity bool
	spread      spread
	terms       terms
	volumes     podVolumes
	// nominatedNode is the node that victims are leaving for the pod; empty for none.
	nominatedNode string
	// unresolvable is why no node can fit the pod; empty if one may.
	unresolvable string
}

// newPodInfo reads a pod before nodes are checked.
func newPodInfo(pod *corev1.Pod, world World) *podInfo {
	info := &podInfo{
		pod: pod, priority: Priority(pod), requests: Requests(pod), ports: hostPorts(pod),
		affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
	}
	info.hasAffinity = len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
	info.nominatedNode = cmp.Or(world.Nominated[pod.UID], pod.Status.NominatedNodeName)
	info.volumes, info.unresolvable = readPodVolumes(pod, world)
	if info.unresolvable == "" {
		info.spread = countSpread(info, world)
		info.terms = countTerms(pod, world)
	}
	return info
}

// checkNode says why the pod may not run on the node, in upstream's words and the order of its
// plugins; no reasons if it may. The first filter that fails ends the list, except that every
// insufficient resource is named.
func (info *podInfo) checkNode(node *NodeView) Refusal {
	final := func(reason string) Refusal { return Refusal{Reasons: []string{reason}, Unresolvable: true} }
	spec := &info.pod.Spec
	switch {
	case node.Object.Spec.Unschedulable && !tolerates(spec.Tolerations, corev1.TaintNodeUnschedulable):
		return final(reasonCordoned)
	case hasUntoleratedTaint(spec.Tolerations, node.Object.Spec.Taints):
		return final(reasonTainted)
	case !node.Ready && !tolerates(spec.Tolerations, corev1.TaintNodeNotReady):
		return final(reasonNotReady)
	case info.hasAffinity && !info.matchesAffinity(node.Object):
		return final(reasonNodeAffinity)
	}
	for _, port := range info.ports {
		if node.Ports[port] > 0 {
			return Refusal{Reasons: []string{reasonPorts}}
		}
	}
	if refusal := info.checkResources(node); refusal.Reasons != nil {
		return refusal
	}
	if refusal := info.volumes.checkNode(node); refusal.Reasons != nil {
		return refusal
	}
	if refusal := info.spread.checkNode(node); refusal.Reasons != nil {
		return refusal
	}
	return info.terms.checkNode(node)
}

func (info *podInfo) matchesAffinity(node *corev1.Node) bool {
	fits, err := info.affinity.Match(node)
	return err == nil && fits
}

// checkResources names every resource of which the node has too little left. The refusal is
// unresolvable if all of a resource would not be enough.
func (info *podInfo) checkResources(node *NodeView) Refusal {
	used := node.Used
	if len(node.Nominated) > 0 {
		used.Others = maps.Clone(used.Others)
	}
	for uid, nominated := range node.Nominated {
		if uid != info.pod.UID && Priority(nominated) >= info.priority {
			used.add(Requests(nominated), 1)
		}
	}
	var lacking Refusal
	check := func(need, taken, have int64, reason string) {
		if need > 0 && taken+need > have {
			lacking.Reasons = append(lacking.Reasons, reason)
			lacking.Unresolvable = lacking.Unresolvable || need > have
		}
	}
	check(1, used.Pods, node.Allocatable.Pods, reasonTooManyPods)
	check(info.requests.MilliCPU, used.MilliCPU, node.Allocatable.MilliCPU, "Insufficient cpu")
	check(info.requests.Memory, used.Memory, node.Allocatable.Memory, "Insufficient memory")
	for _, name := range info.requests.otherNames() {
		check(info.requests.Others[name], used.Others[name], node.Allocatable.Others[name], "Insufficient "+string(name))
	}
	return lacking
}

func hasUntoleratedTaint(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	if len(taints) == 0 {
		return false
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(noLogger(), taints, tolerations, blocksScheduling, true)
	return found
}

func blocksScheduling(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// tolerates reports whether the tolerations include a NoSchedule taint with that key.
func tolerates(tolerations []corev1.Toleration, key string) bool {
	return len(tolerations) > 0 && corev1helpers.TolerationsTolerateTaint(noLogger(), tolerations, &corev1.Taint{
		Key: key, Effect: corev1.TaintEffectNoSchedule,
	}, true)
}

// Priority is the pod's priority; 0 if it has none.
func Priority(pod *corev1.Pod) int32 { return corev1helpers.PodPriority(pod) }
