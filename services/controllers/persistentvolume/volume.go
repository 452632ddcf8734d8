package persistentvolume

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/podfall/podfall/internal/storage"
)

// VolumeDecision is what to do about a volume.
type VolumeDecision struct {
	// Phase to write; empty when it stays.
	Phase corev1.PersistentVolumePhase
	// Unbind takes the reference to a claim that is gone away: the volume is to be used again.
	Unbind bool
	// Delete takes away the volume's files and then the volume: its claim is gone, and it
	// was made for that.
	Delete bool
	// Guard adds [Finalizer], and Release takes it away: the files stay.
	Guard, Release bool
}

// Finalizer keeps a volume that podfall has made, and that is to be deleted with its claim,
// until its files are gone: it may be deleted before the claim is (HonorPVReclaimPolicy).
const Finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// DecideVolume judges a volume; claim is the one that it names, nil when there is none
// (syncVolume).
func DecideVolume(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) VolumeDecision {
	wanted := func(phase corev1.PersistentVolumePhase) VolumeDecision {
		if volume.Status.Phase == phase {
			return VolumeDecision{}
		}
		return VolumeDecision{Phase: phase}
	}
	ours := volume.Annotations[provisionedBy] == Provisioner
	reclaimed := volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	guarded := slices.Contains(volume.Finalizers, Finalizer)
	switch {
	case ours && reclaimed && !guarded && volume.DeletionTimestamp == nil:
		return VolumeDecision{Guard: true}
	case ours && !reclaimed && guarded:
		return VolumeDecision{Release: true}
	}
	ref := volume.Spec.ClaimRef
	switch {
	case ref == nil, ref.UID == "":
		return wanted(corev1.VolumeAvailable)
	case claim == nil || claim.UID != ref.UID:
		decision := wanted(corev1.VolumeReleased)
		if volume.Status.Phase == corev1.VolumeReleased {
			decision.Delete = ours && reclaimed && (guarded || volume.DeletionTimestamp == nil)
			decision.Unbind = volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle && volume.DeletionTimestamp == nil
		}
		return decision
	case claim.Spec.VolumeName == volume.Name:
		return wanted(corev1.VolumeBound)
	}
	return VolumeDecision{} // its claim has not taken it yet
}

// Holder says who has a volume still, in upstream's words; empty for nobody. A node whose
// volume was detached by force may have it mounted all the same, and says so.
func Holder(volume *corev1.PersistentVolume, attachments []*storagev1.VolumeAttachment, nodes []*corev1.Node) string {
	for _, attachment := range attachments {
		if name := attachment.Spec.Source.PersistentVolumeName; name != nil && *name == volume.Name {
			return fmt.Sprintf("persistentvolume %s is still attached to node %s", volume.Name, attachment.Spec.NodeName)
		}
	}
	for _, node := range nodes {
		if volume.Spec.CSI != nil && slices.Contains(node.Status.VolumesInUse, storage.DeviceName(volume.Spec.CSI)) {
			return fmt.Sprintf("persistentvolume %s is still in use on node %s", volume.Name, node.Name)
		}
	}
	return ""
}

// Reaches reports whether the volume can be used on the node.
func Reaches(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	return err == nil && selector.Match(node)
}
