package kubelet

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// verdict is whether the node takes a pod, and why not.
type verdict struct {
	admitted        bool
	reason, message string
}

// admit decides whether the node takes the pod beside the others that use its resources,
// deleted ones included until their containers have stopped (KBL-09). It is pure.
func admit(pod *corev1.Pod, others []*corev1.Pod, labels map[string]string, allocatable corev1.ResourceList) verdict {
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		if labels[key] != pod.Spec.NodeSelector[key] {
			return refuse("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory} {
		capacity, limited := allocatable[name]
		asked := request(pod, name)
		if !limited || asked == 0 {
			continue
		}
		var used int64
		for _, other := range others {
			used += request(other, name)
		}
		if has := amount(name, capacity); used+asked > has {
			return refuse("OutOf"+string(name), fmt.Sprintf(
				"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, asked, used, has))
		}
	}
	return verdict{admitted: true}
}

func refuse(reason, message string) verdict {
	return verdict{reason: reason, message: "Pod was rejected: " + message}
}

// amount is a quantity in the unit of messages: millicores of cpu, else units.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// request is how much of a resource a pod asks for: its containers together, or its
// largest init container if that is more, and its overhead; of places it is one.
func request(pod *corev1.Pod, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	var total int64
	for _, c := range pod.Spec.Containers {
		total += amount(name, c.Resources.Requests[name])
	}
	for _, c := range pod.Spec.InitContainers {
		total = max(total, amount(name, c.Resources.Requests[name]))
	}
	return total + amount(name, pod.Spec.Overhead[name])
}
