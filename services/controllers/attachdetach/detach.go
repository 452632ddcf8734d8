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
type Move int

const (
	// ReadNode reads the node, which no view shows, from the API.
	FindNode Move = iota
	// RemoveFromStatus removes the volume from the node's status.volumesAttached: a kubelet mounts
	// only what is listed there.
	TellNode
	// CheckInUse reads from the API whether the node uses the volume, or may: a kubelet says so
	// before it mounts.
	AskNode
	// DeleteAttachment deletes the attachment; its driver does the rest.
	TakeAway
	// KeepAttached leaves the volume attached, because the view was late. The node's change starts
	// another sync, which stores the node's status again.
	LeaveBe
)

// FirstStep returns the first step. node is the node in the view; nil if it has none.
func (d Detach) First(node *corev1.Node) Move {
	if node == nil {
		return FindNode
	}
	return TellNode
}

// NextStep returns the step after done. node is the node as it was last read; nil if the API has
// none. It panics after the last steps.
func (d Detach) After(done Move, node *corev1.Node) Move {
	switch {
	case done == FindNode && node != nil:
		return TellNode
	case done == TellNode:
		return AskNode
	case done == AskNode && node != nil && d.held(node):
		return LeaveBe
	case done == FindNode, done == AskNode:
		return TakeAway
	}
	panic(fmt.Sprintf("attachdetach: nothing follows move %d", done))
}

// isHeld reports whether the node, as the API has it now, uses the volume or may go on to use it.
// The view may be late (verifyVolumeIsSafeToDetach).
func (d Detach) held(node *corev1.Node) bool {
	attached := func(one corev1.AttachedVolume) bool { return one.Name == d.Device }
	return !d.Forced && (slices.Contains(node.Status.VolumesInUse, d.Device) || slices.ContainsFunc(node.Status.VolumesAttached, attached))
}

// MarkDetaching makes the view show an attachment as being deleted.
func (v View) Leaving(attachment *storagev1.VolumeAttachment, now time.Time) {
	going := attachment.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for i, one := range v.Attachments {
		if one == attachment {
			v.Attachments[i] = going
		}
	}
}
