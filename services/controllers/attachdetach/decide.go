// Package attachdetach attaches CSI volumes, podfall's own among them, to the nodes of the pods
// that use them, and detaches them when no pod uses them (CTL-20). decide.go says what to attach
// and detach; detach.go lists the steps of a detach; controller.go reads and writes; driver.go
// plays the driver's attacher, which upstream is a process of its own.
//
// A kubelet mounts a volume only after its VolumeAttachment says that it is attached. It must also
// have read one version of its node that lists the volume both in status.volumesInUse and in
// status.volumesAttached. So a volume in use is never detached from a node that reports, and a
// single-node volume is never attached to two nodes, except by a forced detach.
package attachdetach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/internal/storage"
)

// MaxWait is how long a silent node keeps a volume that it may have mounted.
const MaxWait = 6 * time.Minute

// Use is a pod that uses an attachable volume on its node.
type Use struct {
	Pod    *corev1.Pod
	Volume *corev1.PersistentVolume
}

// View is everything that a decision depends on.
type View struct {
	Uses        []Use
	Attachments []*storagev1.VolumeAttachment
	// Volumes are the attached volumes, by name. Nodes are the existing nodes, and DeletedNodes
	// those that are gone, in their last known version.
	Volumes             map[string]*corev1.PersistentVolume
	Nodes, DeletedNodes map[string]*corev1.Node
	// Unused is since when no pod has used an attachment, by its name.
	Unused map[string]time.Time
	// OldMessages selects the messages of older releases for a pod that waits.
	OldMessages bool
}

// Plan is what to do.
type Plan struct {
	Attach []Use
	Detach []Detach
	// Blocked are the pods that wait, each with its message.
	Blocked []Blocked
	// Unused is View.Unused for the next decision. Recheck is when the first unused attachment is
	// to be detached by force; zero means never.
	Unused  map[string]time.Time
	Recheck time.Time
}

// Blocked is a pod whose volume is still attached to another node.
type Blocked struct {
	Use

	Message string
}

// NeedsAttach reports whether a volume has to be attached.
func NeedsAttach(volume *corev1.PersistentVolume) bool {
	return volume != nil && volume.Spec.CSI != nil
}

// DeviceName returns the name of a volume in a node's status; empty if it has none.
func DeviceName(volume *corev1.PersistentVolume) corev1.UniqueVolumeName {
	if !NeedsAttach(volume) {
		return ""
	}
	return storage.DeviceName(volume.Spec.CSI)
}

// IsTerminated reports whether a pod no longer uses its volumes: it is terminal, or deleted with no
// running container (IsPodTerminated).
func IsTerminated(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil && c.State.Waiting == nil
	})
}

// Decide compares what is attached with what is used (reconcile).
func Decide(view View, now time.Time) Plan {
	plan := Plan{Unused: map[string]time.Time{}}
	for _, attachment := range view.Attachments {
		if attachment.DeletionTimestamp != nil || slices.ContainsFunc(view.Uses, func(use Use) bool { return attachmentServes(attachment, use) }) {
			continue
		}
		since, known := view.Unused[attachment.Name]
		if !known {
			since = now
		}
		if detach, free := view.canDetach(attachment, now.Sub(since)); free {
			plan.Detach = append(plan.Detach, detach)
		} else if due := since.Add(MaxWait); due.After(now) && (plan.Recheck.IsZero() || due.Before(plan.Recheck)) {
			plan.Recheck = due
		}
		plan.Unused[attachment.Name] = since
	}
	for _, use := range view.Uses {
		plan.planAttach(view, use)
	}
	return plan
}

// attachmentServes reports whether an attachment is the one that a use needs.
func attachmentServes(attachment *storagev1.VolumeAttachment, use Use) bool {
	return attachesVolume(attachment, use.Volume.Name) && attachment.Spec.NodeName == use.Pod.Spec.NodeName
}

// attachesVolume reports whether an attachment is of a volume.
func attachesVolume(attachment *storagev1.VolumeAttachment, volume string) bool {
	name := attachment.Spec.Source.PersistentVolumeName
	return name != nil && *name == volume
}

// canDetach reports whether a volume that no pod has used for a time may be detached: if the node
// does not use it either, after 6 min if the node is not healthy, or at once from a node that is
// out of service. A volume of an unknown node counts as used. An attachment whose volume is gone
// may always be deleted.
func (v View) canDetach(attachment *storagev1.VolumeAttachment, unused time.Duration) (detach Detach, free bool) {
	detach = Detach{Attachment: attachment}
	if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
		detach.Device = DeviceName(v.Volumes[*name])
	}
	if detach.Device == "" {
		return detach, true
	}
	node, there := v.Nodes[attachment.Spec.NodeName]
	if !there {
		node = v.DeletedNodes[attachment.Spec.NodeName]
	}
	if node != nil && !slices.Contains(node.Status.VolumesInUse, detach.Device) {
		return detach, true
	}
	detach.Forced = (unused >= MaxWait && (!there || !isReady(node))) || (there && isOutOfService(node))
	return detach, detach.Forced
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func isOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// planAttach plans to attach a volume for a pod, unless it is attached or planned already. A volume
// for one node that is attached elsewhere, or being detached there, blocks the pod.
func (p *Plan) planAttach(view View, use Use) {
	here := func(attachment *storagev1.VolumeAttachment) bool { return attachmentServes(attachment, use) }
	elsewhere := func(attachment *storagev1.VolumeAttachment) bool {
		return attachesVolume(attachment, use.Volume.Name)
	}
	planned := func(other Use) bool {
		return other.Volume.Name == use.Volume.Name && (isExclusive(use.Volume) || other.Pod.Spec.NodeName == use.Pod.Spec.NodeName)
	}
	switch {
	case slices.ContainsFunc(view.Attachments, here):
	case isExclusive(use.Volume) && slices.ContainsFunc(view.Attachments, elsewhere):
		p.Blocked = append(p.Blocked, Blocked{Use: use, Message: blockedMessage(view, use)})
	case !slices.ContainsFunc(p.Attach, planned):
		p.Attach = append(p.Attach, use)
	}
}

// isExclusive reports whether a volume may be attached to one node only.
func isExclusive(volume *corev1.PersistentVolume) bool { return !storage.IsShared(volume) }

// blockedMessage returns the message for a pod that waits, with the pods in the way
// (reportMultiAttachError).
func blockedMessage(view View, use Use) string {
	var names []string
	others := 0
	for _, other := range view.Uses {
		switch {
		case other.Volume.Name != use.Volume.Name || other.Pod.Spec.NodeName == use.Pod.Spec.NodeName:
		case other.Pod.Namespace == use.Pod.Namespace:
			names = append(names, other.Pod.Name)
		default:
			others++
		}
	}
	begin, end := "Waiting for detach", "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
	if view.OldMessages {
		begin, end = "Multi-Attach error", "Volume is already exclusively attached to one node and can't be attached to another"
	}
	message := fmt.Sprintf("%s for volume %q ", begin, use.Volume.Name)
	switch {
	case len(names) > 0 && others > 0:
		return message + fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces", strings.Join(names, ", "), others)
	case len(names) > 0:
		return message + "Volume is already used by pod(s) " + strings.Join(names, ", ")
	case others > 0:
		return message + fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", others)
	}
	return message + end
}

// SortByAge sorts uses by the age of their pods, the oldest first.
func SortByAge(uses []Use) []Use {
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	return uses
}

// AttachedVolumes returns what a node's status should list as attached, sorted by name.
func AttachedVolumes(node string, attachments []*storagev1.VolumeAttachment, volumes map[string]*corev1.PersistentVolume) []corev1.AttachedVolume {
	var attached []corev1.AttachedVolume
	for _, attachment := range attachments {
		name := attachment.Spec.Source.PersistentVolumeName
		if attachment.Spec.NodeName != node || !attachment.Status.Attached || attachment.DeletionTimestamp != nil || name == nil {
			continue
		}
		if device := DeviceName(volumes[*name]); device != "" {
			attached = append(attached, corev1.AttachedVolume{Name: device})
		}
	}
	slices.SortFunc(attached, func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
	return attached
}
