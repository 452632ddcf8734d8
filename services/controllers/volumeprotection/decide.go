// Package volumeprotection keeps claims while pods use them and volumes while they are bound:
// their deletion waits for a finalizer of this package's.
package volumeprotection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The finalizers.
const (
	ClaimFinalizer  = "kubernetes.io/pvc-protection"
	VolumeFinalizer = "kubernetes.io/pv-protection"
)

// Change is what to do about a finalizer.
type Change int

// The changes.
const (
	Keep Change = iota
	Add
	Remove
)

// Claim says what to do about a claim; pods are those of its namespace.
func Claim(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) Change {
	used := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return Uses(pod, claim) })
	return change(claim, ClaimFinalizer, used)
}

// Volume says what to do about a volume: it is in use while it is bound.
func Volume(volume *corev1.PersistentVolume) Change {
	return change(volume, VolumeFinalizer, volume.Status.Phase == corev1.VolumeBound)
}

func change(obj metav1.Object, finalizer string, used bool) Change {
	has := slices.Contains(obj.GetFinalizers(), finalizer)
	switch {
	case obj.GetDeletionTimestamp() == nil && !has:
		return Add
	case obj.GetDeletionTimestamp() != nil && has && !used:
		return Remove
	}
	return Keep
}

// Uses reports whether a pod that has a node names the claim, by name or as the volume that was made
// for it. Such a volume goes when its pod has shut down, though a finalizer keeps the pod
// (podUsesPVCForDeletion).
func Uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return pod.Spec.NodeName != "" && names(pod, claim, !hasShutDown(pod))
}

// names reports whether a volume of the pod is the claim's; ephemeral counts volumes that were made for
// the pod.
func names(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, ephemeral bool) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return ClaimName(pod, volume) == claim.Name && (volume.Ephemeral == nil || ephemeral && metav1.IsControlledBy(claim, pod))
	})
}

// hasShutDown reports whether the kubelet has confirmed the pod's end, or the pod was deleted by force
// (podIsShutDown).
func hasShutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// ClaimName is the name of the claim behind a pod's volume; empty when there is none.
func ClaimName(pod *corev1.Pod, volume corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}
