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
	asked := requests(pod)
	used := make(corev1.ResourceList)
	for _, other := range others {
		add(used, requests(other))
	}
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory} {
		want, have := asked[name], used[name]
		capacity, limited := allocatable[name]
		if !limited || want.IsZero() {
			continue
		}
		after := have.DeepCopy()
		after.Add(want)
		if after.Cmp(capacity) > 0 {
			return refuse("OutOf"+string(name), fmt.Sprintf(
				"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				name, amount(name, want), amount(name, have), amount(name, capacity)))
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

// requests are what a pod asks for: its containers together, or its largest init
// container if that is more, and one place.
func requests(pod *corev1.Pod) corev1.ResourceList {
	total := make(corev1.ResourceList)
	for _, c := range pod.Spec.Containers {
		add(total, c.Resources.Requests)
	}
	for _, c := range pod.Spec.InitContainers {
		for name, q := range c.Resources.Requests {
			if have := total[name]; q.Cmp(have) > 0 {
				total[name] = q.DeepCopy()
			}
		}
	}
	add(total, pod.Spec.Overhead)
	total[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return total
}

func add(total, more corev1.ResourceList) {
	for name, q := range more {
		sum := total[name].DeepCopy()
		sum.Add(q)
		total[name] = sum
	}
}
