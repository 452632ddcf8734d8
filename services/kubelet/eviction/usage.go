package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// UsageAnnotation + a container's name is the annotation that says what the container uses, for
// example "memory=500Mi,ephemeral-storage=2Gi,pids=30". A scripted container uses nothing by
// itself.
const UsageAnnotation = "usage.podfall.io/"

// UsageOf returns what each of the pod's containers uses according to its annotation. Invalid
// quantities are ignored.
func UsageOf(pod *corev1.Pod) map[string]corev1.ResourceList {
	var uses map[string]corev1.ResourceList
	for key, text := range pod.Annotations {
		container, is := strings.CutPrefix(key, UsageAnnotation)
		if !is {
			continue
		}
		list := make(corev1.ResourceList)
		for one := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
			if quantity, err := resource.ParseQuantity(value); err == nil {
				list[corev1.ResourceName(name)] = quantity
			}
		}
		if uses == nil {
			uses = map[string]corev1.ResourceList{}
		}
		uses[container] = list
	}
	return uses
}

// FindExcess returns why a pod that uses too much disk must end: an emptyDir beyond its sizeLimit,
// the pod beyond its containers' limits, or one container beyond its own. It returns "" if the pod
// keeps its limits. Volumes are the sizes of its emptyDirs, by name.
func FindExcess(pod Pod, volumes map[string]int64) string {
	for _, v := range pod.Spec.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if volumes[v.Name] > v.EmptyDir.SizeLimit.Value() {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
		}
	}
	const name = corev1.ResourceEphemeralStorage
	var total, limit resource.Quantity
	limited := len(pod.Spec.Spec.Containers) > 0
	for _, c := range pod.Spec.Spec.Containers {
		most, has := c.Resources.Limits[name]
		limited = limited && has
		limit.Add(most)
		total.Add(pod.Uses[c.Name][name])
	}
	for _, size := range volumes {
		total.Add(*resource.NewQuantity(size, resource.BinarySI))
	}
	if limited && total.Cmp(limit) > 0 {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
	}
	for _, c := range pod.Spec.Spec.Containers {
		used := pod.Uses[c.Name][name]
		if most, has := c.Resources.Limits[name]; has && used.Cmp(most) > 0 {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, most.String())
		}
	}
	return ""
}
