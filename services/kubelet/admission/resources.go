package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// shortage is a resource that the node has too little of.
type shortage struct {
	name                  corev1.ResourceName
	asked, used, capacity int64
}

// checkResources checks that the node has room for a pod. A critical pod gets room if others can be
// ended for it.
func checkResources(pod *corev1.Pod, host Host) Verdict {
	lacks := findShortages(pod, host)
	if len(lacks) == 0 {
		return Verdict{Admitted: true}
	}
	if podstate.IsCritical(pod) {
		if victims := victimsFor(pod, host, lacks); len(victims) > 0 {
			return Verdict{Admitted: true, Victims: victims}
		}
	}
	first := lacks[0]
	return refuse("OutOf"+string(first.name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		first.name, first.asked, first.used, first.capacity))
}

// findShortages returns the resources that do not suffice, in upstream's order. Extended resources
// that the node does not have are not checked.
func findShortages(pod *corev1.Pod, host Host) []shortage {
	var lacks []shortage
	for _, name := range resourceNames(pod) {
		capacity, has := host.Allocatable[name]
		asked := Request(pod, name)
		if !has || asked == 0 {
			continue
		}
		var used int64
		for _, other := range host.Pods {
			used += Request(other, name)
		}
		if most := amount(name, capacity); used+asked > most {
			lacks = append(lacks, shortage{name, asked, used, most})
		}
	}
	return lacks
}

// resourceNames returns the resources that a pod can lack.
func resourceNames(pod *corev1.Pod) []corev1.ResourceName {
	first := []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	others := make(map[corev1.ResourceName]bool)
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			others[name] = !slices.Contains(first, name)
		}
	}
	maps.DeleteFunc(others, func(_ corev1.ResourceName, extended bool) bool { return !extended })
	return append(first, slices.Sorted(maps.Keys(others))...)
}

// amount returns a quantity in the unit of messages: millicores of cpu, else units.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Request returns how much of a resource a pod requests, in millicores of cpu or else in units: its
// containers and sidecars together, or an init container with the sidecars before it if that is
// more, plus its overhead. Of pods it is one.
func Request(pod *corev1.Pod, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	var sidecars, most, total int64
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		asked := amount(name, c.Resources.Requests[name])
		if podstate.IsSidecar(c) {
			sidecars += asked
			asked = 0
		}
		most = max(most, sidecars+asked)
	}
	for _, c := range pod.Spec.Containers {
		total += amount(name, c.Resources.Requests[name])
	}
	total = max(total+sidecars, most)
	if whole := pod.Spec.Resources; whole != nil && strings.Contains("cpu memory", string(name)) {
		if asked, said := whole.Requests[name]; said {
			total = amount(name, asked)
		}
	}
	return total + amount(name, pod.Spec.Overhead[name])
}
