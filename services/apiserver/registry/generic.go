package registry

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// generic is the strategy of every kind without one of its own, and the base of the other
// strategies. It knows a kind by the fields of its Go struct. The object itself and its status are
// written separately. In kinds with generations, a change of anything but metadata and status
// raises the generation. It validates metadata only: a kind without rules is otherwise stored as
// sent.
type generic struct {
	kind kinds.Kind
}

func (s generic) PrepareForCreate(obj kinds.Object, _ time.Time) {
	if status := structField(obj, "Status"); status.IsValid() && status.CanSet() {
		status.SetZero()
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
	}
	if countsGeneration(s.kind) {
		obj.SetGeneration(1)
	}
	defaultTemplates(obj)
}

func (s generic) Validate(obj kinds.Object) field.ErrorList { return ValidateMeta(s.kind, obj) }

func (s generic) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	if subresource == statusSubresource {
		keepAllButStatus(obj, old)
		return
	}
	if status := structField(obj, "Status"); status.IsValid() {
		status.Set(structField(old, "Status"))
	}
	defaultTemplates(obj)
	if countsGeneration(s.kind) && contentChanged(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

func (s generic) ValidateUpdate(obj, old kinds.Object, _ string) field.ErrorList {
	return validateKindMetaUpdate(obj, old)
}

func (generic) Warnings(obj kinds.Object) []string { return templateWarnings(obj) }

func (s generic) Fields(obj kinds.Object) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName()}
	if s.kind.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	addSelectable(set, obj)
	return set
}

func (generic) Graceful(kinds.Object, *int64) (int64, bool) { return 0, false }

// keepAllButStatus takes everything but the status from old, except the metadata that a status
// update may change: labels, annotations and finalizers. Owners and the deletion may not change.
func keepAllButStatus(obj, old kinds.Object) {
	into, from := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old).Elem()
	for i := range into.NumField() {
		if isContent(into.Type().Field(i).Name) {
			into.Field(i).Set(from.Field(i))
		}
	}
	obj.SetDeletionTimestamp(nil)
	obj.SetOwnerReferences(old.GetOwnerReferences())
}

// contentChanged reports whether anything but metadata and status differs.
func contentChanged(obj, old kinds.Object) bool {
	now, before := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old).Elem()
	for i := range now.NumField() {
		if isContent(now.Type().Field(i).Name) &&
			!kinds.Equal(now.Field(i).Addr().Interface(), before.Field(i).Addr().Interface()) {
			return true
		}
	}
	return false
}

// isContent reports whether a field of an object's Go struct is neither metadata nor status.
func isContent(name string) bool {
	return name != "TypeMeta" && name != "ObjectMeta" && name != "Status"
}

// newLike returns an empty object of obj's Go type.
func newLike(obj kinds.Object) kinds.Object {
	empty, ok := reflect.TypeAssert[kinds.Object](reflect.New(reflect.TypeOf(obj).Elem()))
	if !ok {
		panic("an object's Go type is that of no object") // a mistake in a Go type
	}
	return empty
}

// copyOf returns a deep copy of obj.
func copyOf[T kinds.Object](obj T) T {
	copied, ok := obj.DeepCopyObject().(T)
	if !ok {
		panic("the deep copy of an object is of another type") // a mistake in a Go type
	}
	return copied
}
