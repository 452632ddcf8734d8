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
	// NotMine leaves it alone.
	NotMine Ownership = iota
	// Mine is the owner's, and stays so.
	Mine
	// Adopt is nobody's, and is to become the owner's.
	Adopt
	// Release is the owner's, and does not fit any more.
	Release
)

// Claim says whose an object is (BaseControllerRefManager.ClaimObject); matches says whether
// the owner's selector has it.
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

// Touch is what a change of a pod means for the controllers of a kind.
type Touch struct {
	// Owner is the pod's controller, if it is of the kind; Former was until now.
	Owner, Former *metav1.OwnerReference
	// Orphan says that the pod has no controller, and that somebody may adopt it now.
	Orphan bool
	// Came says that the pod was made, Left that it has begun to go, or is gone.
	Came, Left bool
}

// Touched reads a change of a pod; of a new one old is nil, of one that is gone now is nil.
func Touched(gvk schema.GroupVersionKind, old, now *corev1.Pod) Touch {
	var touch Touch
	if now == nil {
		touch.Owner, touch.Left = controllerOf(gvk, old), true
		return touch
	}
	touch.Owner = controllerOf(gvk, now)
	touch.Came = old == nil
	touch.Left = now.DeletionTimestamp != nil
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
