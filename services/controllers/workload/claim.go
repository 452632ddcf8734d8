package workload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ownership is what an owner does about an object that it may own.
type Ownership int

// What an owner does.
const (
	NotMine Ownership = iota
	// Mine is owned, and stays so.
	Mine
	// Adopt has no owner, and is to be adopted.
	Adopt
	// Release is owned, and does not match any more.
	Release
)

// Claim returns what owner does about an object (BaseControllerRefManager.ClaimObject). matches
// reports whether the owner's selector matches the object.
func Claim(owner, obj metav1.Object, matches func() bool) Ownership {
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref != nil && ref.UID != owner.GetUID():
	case ref != nil && matches():
		return Mine
	case ref != nil && owner.GetDeletionTimestamp() == nil:
		return Release
	case ref != nil, owner.GetDeletionTimestamp() != nil, obj.GetDeletionTimestamp() != nil:
	case owner.GetNamespace() == obj.GetNamespace() && matches():
		return Adopt
	}
	return NotMine
}

// PodChange is what a change of a pod means for the controllers of a kind.
type PodChange struct {
	// Owner is the pod's controller, if it is of the kind; Former was its controller before.
	Owner, Former *metav1.OwnerReference
	// Orphan says that the pod has no controller and can be adopted now.
	Orphan bool
	// Created says that the pod is new; Deleted that it is being deleted, or gone.
	Created, Deleted bool
}

// ReadPodChange reads a change of a pod. old is nil for a new pod, now is nil for a deleted one.
func ReadPodChange(gvk schema.GroupVersionKind, old, now *corev1.Pod) PodChange {
	var touch PodChange
	if now == nil {
		touch.Owner, touch.Deleted = controllerOf(gvk, old), true
		return touch
	}
	touch.Owner = controllerOf(gvk, now)
	touch.Created = old == nil
	touch.Deleted = now.DeletionTimestamp != nil
	if old != nil {
		before := controllerOf(gvk, old)
		if before != nil && (touch.Owner == nil || touch.Owner.UID != before.UID) {
			touch.Former = before
		}
	}
	if now.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(now) == nil {
		touch.Orphan = old == nil || metav1.GetControllerOfNoCopy(old) != nil || !maps.Equal(old.Labels, now.Labels)
	}
	return touch
}

func controllerOf(gvk schema.GroupVersionKind, obj metav1.Object) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != gvk.Kind {
		return nil
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != gvk.Group {
		return nil
	}
	return ref
}
