package attachdetach

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto/kinds"
)

// Lookup finds claims and volumes.
type Lookup struct {
	Claim  func(namespace, name string) (*corev1.PersistentVolumeClaim, bool)
	Volume func(name string) (*corev1.PersistentVolume, bool)
}

// UsesOf returns the uses by pods that have a node and use a volume that has to be attached, the
// oldest pod first.
func UsesOf(pods []*corev1.Pod, find Lookup) []Use {
	var found []Use
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || IsTerminated(pod) {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			name := ""
			switch {
			case volume.PersistentVolumeClaim != nil:
				name = volume.PersistentVolumeClaim.ClaimName
			case volume.Ephemeral != nil:
				name = pod.Name + "-" + volume.Name
			}
			claim, ok := find.Claim(pod.Namespace, name)
			if !ok || claim.Spec.VolumeName == "" {
				continue
			}
			if bound, ok := find.Volume(claim.Spec.VolumeName); ok && NeedsAttach(bound) {
				found = append(found, Use{Pod: pod, Volume: bound})
			}
		}
	}
	return SortByAge(found)
}

// VolumesOf returns the existing volumes of attachments, by name.
func VolumesOf(attachments []*storagev1.VolumeAttachment, find Lookup) map[string]*corev1.PersistentVolume {
	volumes := map[string]*corev1.PersistentVolume{}
	for _, attachment := range attachments {
		if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
			if volume, ok := find.Volume(*name); ok {
				volumes[*name] = volume
			}
		}
	}
	return volumes
}

// AttachmentFor returns the attachment of a volume to a pod's node.
func AttachmentFor(use Use) *storagev1.VolumeAttachment {
	csi := use.Volume.Spec.CSI
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name:       storage.AttachmentName(csi, use.Pod.Spec.NodeName),
			Finalizers: []string{Finalizer(csi.Driver)},
		},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: csi.Driver, NodeName: use.Pod.Spec.NodeName,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &use.Volume.Name},
		},
	}
}

// AffectsAttachments reports whether a change of a node matters to its attachments; its heartbeats
// do not.
func AffectsAttachments(old, now *corev1.Node) bool {
	return old == nil || now == nil || isReady(old) != isReady(now) || isOutOfService(old) != isOutOfService(now) ||
		!kinds.Equal(old.Status.VolumesInUse, now.Status.VolumesInUse) ||
		!kinds.Equal(old.Status.VolumesAttached, now.Status.VolumesAttached)
}

// DriverWork returns what the driver has to do about an attachment; empty for nothing.
func DriverWork(attachment *storagev1.VolumeAttachment) fault.Point {
	switch {
	case attachment.DeletionTimestamp == nil && !attachment.Status.Attached:
		return fault.VolumeAttach
	case attachment.DeletionTimestamp != nil && slices.Contains(attachment.Finalizers, Finalizer(attachment.Spec.Attacher)):
		return fault.VolumeDetach
	}
	return ""
}

// AfterDriverWork returns an attachment as the driver stores it after its work: with a new status
// if it has attached, without its finalizer if it has detached.
func AfterDriverWork(attachment *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	changed := attachment.DeepCopy()
	if attachment.DeletionTimestamp == nil {
		changed.Status = storagev1.VolumeAttachmentStatus{Attached: true}
		return changed
	}
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(one string) bool { return one == Finalizer(attachment.Spec.Attacher) })
	return changed
}
