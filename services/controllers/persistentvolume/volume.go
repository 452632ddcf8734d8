package persistentvolume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// VolumeDecision is what to do about a volume.
type VolumeDecision struct {
	// Phase to write; empty when it stays.
	Phase corev1.PersistentVolumePhase
	// Unbind takes the reference to a claim that is gone away: the volume is to be used again.
	Unbind bool
	// Delete deletes the volume: its claim is gone, and it was made for that.
	Delete bool
}

// DecideVolume judges a volume; claim is the one that it names, nil when there is none
// (syncVolume).
func DecideVolume(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) VolumeDecision {
	wanted := func(phase corev1.PersistentVolumePhase) VolumeDecision {
		if volume.Status.Phase == phase {
			return VolumeDecision{}
		}
		return VolumeDecision{Phase: phase}
	}
	ref := volume.Spec.ClaimRef
	switch {
	case ref == nil, ref.UID == "":
		return wanted(corev1.VolumeAvailable)
	case claim == nil || claim.UID != ref.UID:
		decision := wanted(corev1.VolumeReleased)
		if volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil {
			policy := volume.Spec.PersistentVolumeReclaimPolicy
			decision.Delete = policy == corev1.PersistentVolumeReclaimDelete && volume.Annotations[provisionedBy] == Provisioner
			decision.Unbind = policy == corev1.PersistentVolumeReclaimRecycle
		}
		return decision
	case claim.Spec.VolumeName == volume.Name:
		return wanted(corev1.VolumeBound)
	}
	return VolumeDecision{} // its claim has not taken it yet
}

// Reaches reports whether the volume can be used on the node.
func Reaches(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	return err == nil && selector.Match(node)
}
