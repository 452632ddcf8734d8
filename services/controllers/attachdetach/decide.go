// Package attachdetach attaches volumes that need it to the nodes of the pods that use them,
// and detaches them when nobody does (CTL-20). Those are the CSI volumes; who would attach them
// is emulated too. decide.go says what is where; controller.go reads and writes.
//
// Kubelets do not wait for it: an attachment tells the story, and holds nothing up on a node.
package attachdetach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxWait is how long a node that cannot be heard keeps its volumes.
const MaxWait = 6 * time.Minute

// Use is a pod that uses an attachable volume on its node.
type Use struct {
	Pod    *corev1.Pod
	Volume *corev1.PersistentVolume
}

// View is all that matters at once.
type View struct {
	Uses        []Use
	Attachments []*storagev1.VolumeAttachment
	Nodes       map[string]*corev1.Node
	// Unused is since when nobody uses an attachment, by its name.
	Unused map[string]time.Time
}

// Plan is what to do.
type Plan struct {
	Attach []Use
	Detach []*storagev1.VolumeAttachment
	// Blocked are pods that wait, with the message for each.
	Blocked []Blocked
	// Unused is View.Unused for the next time; Recheck is when the first of them is to be
	// detached all the same, zero for never.
	Unused  map[string]time.Time
	Recheck time.Time
}

// Blocked is a pod whose volume is still attached elsewhere.
type Blocked struct {
	Pod     *corev1.Pod
	Message string
}

// Needs reports whether a volume has to be attached.
func Needs(volume *corev1.PersistentVolume) bool { return volume != nil && volume.Spec.CSI != nil }

// Done reports whether a pod no longer uses its volumes: it is terminal, or deleted and
// nothing of it runs.
func Done(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	running := slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil
	})
	return pod.DeletionTimestamp != nil && len(pod.Status.ContainerStatuses) > 0 && !running
}

// Decide compares what is attached with what is used (reconcile).
func Decide(view View, now time.Time) Plan {
	plan := Plan{Unused: map[string]time.Time{}}
	left := slices.DeleteFunc(slices.Clone(view.Attachments), func(attachment *storagev1.VolumeAttachment) bool {
		return slices.ContainsFunc(view.Uses, func(use Use) bool { return is(attachment, use) })
	})
	detached := map[string]bool{}
	for _, attachment := range left {
		since, known := view.Unused[attachment.Name]
		if !known {
			since = now
		}
		if release(view.Nodes[attachment.Spec.NodeName], since, now) {
			plan.Detach = append(plan.Detach, attachment)
			detached[attachment.Name] = true
			continue
		}
		plan.Unused[attachment.Name] = since
		if due := since.Add(MaxWait); plan.Recheck.IsZero() || due.Before(plan.Recheck) {
			plan.Recheck = due
		}
	}
	for _, use := range view.Uses {
		plan.use(view, use, detached)
	}
	return plan
}

// is reports whether an attachment is what a use asks for.
func is(attachment *storagev1.VolumeAttachment, use Use) bool {
	name := attachment.Spec.Source.PersistentVolumeName
	return name != nil && *name == use.Volume.Name && attachment.Spec.NodeName == use.Pod.Spec.NodeName
}

// release reports whether a volume that nobody uses may leave its node: it has been unmounted
// if the node can be heard, and it is taken away after 6 min if it cannot, or at once from a
// node that is said not to come back.
func release(node *corev1.Node, since, now time.Time) bool {
	if node == nil || now.Sub(since) >= MaxWait {
		return true
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		return true
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// use attaches a volume for a pod unless that is done, or it is elsewhere and may not be in two
// places.
func (p *Plan) use(view View, use Use, detached map[string]bool) {
	for _, attachment := range view.Attachments {
		if is(attachment, use) {
			return
		}
	}
	if slices.ContainsFunc(p.Attach, func(other Use) bool {
		return other.Volume.Name == use.Volume.Name && other.Pod.Spec.NodeName == use.Pod.Spec.NodeName
	}) {
		return
	}
	if !exclusive(use.Volume) {
		p.Attach = append(p.Attach, use)
		return
	}
	for _, attachment := range view.Attachments {
		if name := attachment.Spec.Source.PersistentVolumeName; name != nil && *name == use.Volume.Name && !detached[attachment.Name] {
			p.Blocked = append(p.Blocked, Blocked{Pod: use.Pod, Message: blockedMessage(view, use)})
			return
		}
	}
	p.Attach = append(p.Attach, use)
}

// exclusive reports whether a volume may be on one node only.
func exclusive(volume *corev1.PersistentVolume) bool {
	return !slices.ContainsFunc(volume.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// blockedMessage names the pods in the way, if there are any (reportMultiAttachError).
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
	message := fmt.Sprintf("Waiting for detach for volume %q ", use.Volume.Name)
	switch {
	case len(names) > 0 && others > 0:
		return message + fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces", strings.Join(names, ", "), others)
	case len(names) > 0:
		return message + "Volume is already used by pod(s) " + strings.Join(names, ", ")
	case others > 0:
		return message + fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", others)
	}
	return message + "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
}

// Sorted puts uses in the order in which their pods came.
func Sorted(uses []Use) []Use {
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), compare(a.Pod.UID, b.Pod.UID))
	})
	return uses
}

func compare(a, b types.UID) int { return cmp.Compare(a, b) }
