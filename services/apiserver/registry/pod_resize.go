package registry

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// The subresource resize changes what the containers of a Pod that runs may use.

// keepAllButResources takes everything but the identity and the containers' resources from old. A
// Pod with other containers stays as it is, to be refused.
func keepAllButResources(pod, old *corev1.Pod) {
	spec := old.Spec.DeepCopy()
	if !copyResources(spec.Containers, pod.Spec.Containers) || !copyResources(spec.InitContainers, pod.Spec.InitContainers) {
		pod.Status = *old.Status.DeepCopy()
		return
	}
	keepIdentity(pod, old)
	pod.Spec = *spec
	if !kinds.Equal(pod.Spec, old.Spec) {
		raiseGeneration(pod, old)
	}
}

// copyResources gives containers the requested resources; false if the lists name other containers.
func copyResources(containers, wanted []corev1.Container) bool {
	named := func(a, b corev1.Container) bool { return a.Name == b.Name }
	if !slices.EqualFunc(containers, wanted, named) {
		return false
	}
	for i := range containers {
		containers[i].Resources = *wanted[i].Resources.DeepCopy()
		containers[i].ResizePolicy = slices.Clone(wanted[i].ResizePolicy)
		roundUp(containers[i].Resources.Limits)
		roundUp(containers[i].Resources.Requests)
	}
	return true
}

// validateResize allows CPU and memory to change within the Pod's quality of service.
func validateResize(pod, old *corev1.Pod) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	if _, static := old.Annotations[corev1.MirrorPodAnnotationKey]; static {
		f.forbidden(field.NewPath(""), "static pods cannot be resized")
	}
	if qosClass(&pod.Spec) != qosClass(&old.Spec) {
		f.invalid(at, old.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	rest := pod.Spec.DeepCopy()
	for _, list := range [][2][]corev1.Container{
		{rest.Containers, old.Spec.Containers}, {rest.InitContainers, old.Spec.InitContainers},
	} {
		if len(list[0]) != len(list[1]) {
			break
		}
		for i := range list[0] {
			restoreCPUAndMemory(&list[0][i], &list[1][i])
		}
	}
	if !kinds.Equal(*rest, old.Spec) {
		f.forbidden(at, "only cpu and memory resources are mutable")
	}
	return f.errs
}

// restoreCPUAndMemory restores what a resize may change.
func restoreCPUAndMemory(now, was *corev1.Container) {
	now.ResizePolicy = was.ResizePolicy
	for _, pair := range []struct {
		now *corev1.ResourceList
		was corev1.ResourceList
	}{{&now.Resources.Limits, was.Resources.Limits}, {&now.Resources.Requests, was.Resources.Requests}} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			delete(*pair.now, name)
			if amount, ok := pair.was[name]; ok {
				if *pair.now == nil {
					*pair.now = make(corev1.ResourceList)
				}
				(*pair.now)[name] = amount
			}
		}
	}
}
