package podstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The annotations that tell static pods and their mirrors (KBL-82).
const (
	// AnnotationSource says where a kubelet has a pod from: SourceFile, or the API.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash is the hash of a static pod's file, which is its UID too.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is when a static pod was first read.
	AnnotationSeen = "kubernetes.io/config.seen"

	SourceFile = "file"
)

// IsStatic reports whether the pod comes from a file of the node and not from the API.
func IsStatic(pod *corev1.Pod) bool {
	source := pod.Annotations[AnnotationSource]
	return source != "" && source != "api" && !IsMirror(pod)
}

// IsMirror reports whether the pod is the mirror of a static pod.
func IsMirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return is
}

// IsMirrorOf reports whether the mirror belongs to this version of the static pod.
func IsMirrorOf(mirror, static *corev1.Pod) bool {
	return mirror.Namespace == static.Namespace && mirror.Name == static.Name &&
		mirror.Annotations[corev1.MirrorPodAnnotationKey] == static.Annotations[AnnotationHash]
}

// criticalPriority is the least priority of pods that the system needs.
const criticalPriority int32 = 2_000_000_000

// Priority returns the pod's priority; 0 if it has none.
func Priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// IsCritical reports whether the node must not evict the pod.
func IsCritical(pod *corev1.Pod) bool {
	return IsStatic(pod) || IsMirror(pod) || Priority(pod) >= criticalPriority
}

// QOS returns the pod's quality of service: the API's value, or the value that the API would set if
// it is missing.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	some, all := false, true
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, asked := c.Resources.Requests[name]
			limit, limited := c.Resources.Limits[name]
			some = some || asked && !request.IsZero() || limited && !limit.IsZero()
			all = all && limited && !limit.IsZero() && (!asked || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// Container returns the spec of a regular or an init container, or nil.
func Container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
