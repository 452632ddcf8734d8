package attachdetach

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Detach is a volume to be detached from its node. A forced detach ignores whether the node uses
// the volume.
type Detach struct {
	Attachment *storagev1.VolumeAttachment
	Device     corev1.UniqueVolumeName
	Forced     bool
}

// DetachStep is one step of a detach.
type DetachStep int

const (
	// ReadNode reads the node, which no view shows, from the API.
	ReadNode DetachStep = iota
	// RemoveFromStatus removes the volume from the node's status.volumesAttached: a kubelet mounts
	// only what is listed there.
	RemoveFromStatus
	// CheckInUse reads from the API whether the node uses the volume, or may: a kubelet says so
	// before it mounts.
	CheckInUse
	// DeleteAttachment deletes the attachment; its driver does the rest.
	DeleteAttachment
	// KeepAttached leaves the volume attached, because the view was late. The node's change starts
	// another sync, which stores the node's status again.
	KeepAttached
)

// FirstStep returns the first step. node is the node in the view; nil if it has none.
func (d Detach) FirstStep(node *corev1.Node) DetachStep {
	if node == nil {
		return ReadNode
	}
	return RemoveFromStatus
}

// NextStep returns the step after done. node is the node as it was last read; nil if the API has
// none. It panics after the last steps.
func (d Detach) NextStep(done DetachStep, node *corev1.Node) DetachStep {
	switch {
	case done == ReadNode && node != nil:
		return RemoveFromStatus
	case done == RemoveFromStatus:
		return CheckInUse
	case done == CheckInUse && node != nil && d.isHeld(node):
		return KeepAttached
	case done == ReadNode, done == CheckInUse:
		return DeleteAttachment
	}
	panic(fmt.Sprintf("attachdetach: nothing follows move %d", done))
}

// isHeld reports whether the node, as the API has it now, uses the volume or may go on to use it.
// The view may be late (verifyVolumeIsSafeToDetach).
func (d Detach) isHeld(node *corev1.Node) bool {
	attached := func(one corev1.AttachedVolume) bool { return one.Name == d.Device }
	return !d.Forced && (slices.Contains(node.Status.VolumesInUse, d.Device) || slices.ContainsFunc(node.Status.VolumesAttached, attached))
}

// MarkDetaching makes the view show an attachment as being deleted.
func (v View) MarkDetaching(attachment *storagev1.VolumeAttachment, now time.Time) {
	going := attachment.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for i, one := range v.Attachments {
		if one == attachment {
			v.Attachments[i] = going
		}
	}
}
