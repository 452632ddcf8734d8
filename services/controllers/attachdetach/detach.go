package attachdetach

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Detach is a volume that is to leave its node. A forced one does not ask whether the node uses
// it.
type Detach struct {
	Attachment *storagev1.VolumeAttachment
	Device     corev1.UniqueVolumeName
	Forced     bool
}

// Move is one of those by which a volume leaves its node.
type Move int

const (
	// FindNode reads the node, which no view shows, from the API.
	FindNode Move = iota
	// TellNode has the node's status say that the volume is not attached any more: a kubelet
	// mounts only what its node is said to have.
	TellNode
	// AskNode reads from the API whether the node uses the volume, or may: a kubelet says so
	// before it mounts.
	AskNode
	// TakeAway deletes the attachment; its driver does the rest.
	TakeAway
	// LeaveBe lets the volume be where it is: the view was late. The node's change brings the
	// volume back, and what the node has is said again.
	LeaveBe
)

// First is the first move; node is what the view has of the node, nil for nothing.
func (d Detach) First(node *corev1.Node) Move {
	if node == nil {
		return FindNode
	}
	return TellNode
}

// After is what follows a move; node is the node as it was last read, nil when the API has none.
// It panics after the last ones, which nothing follows.
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

// held reports whether the node as the API has it now keeps a volume from being detached, by what
// it uses or may go on to use: the view may be late (verifyVolumeIsSafeToDetach).
func (d Detach) held(node *corev1.Node) bool {
	attached := func(one corev1.AttachedVolume) bool { return one.Name == d.Device }
	return !d.Forced && (slices.Contains(node.Status.VolumesInUse, d.Device) || slices.ContainsFunc(node.Status.VolumesAttached, attached))
}

// Leaving has the view show an attachment as one that goes.
func (v View) Leaving(attachment *storagev1.VolumeAttachment, now time.Time) {
	going := attachment.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for i, one := range v.Attachments {
		if one == attachment {
			v.Attachments[i] = going
		}
	}
}
