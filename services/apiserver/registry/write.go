package registry

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// BeforeCreate prepares and validates a new object with the given UID: [PrepareCreate] and
// [ValidateCreate]. The error is an apierrors value.
func BeforeCreate(strategy Strategy, kind kinds.Kind, obj kinds.Object, now time.Time, uid types.UID) error {
	if err := PrepareCreate(strategy, obj, now, uid); err != nil {
		return err
	}
	return ValidateCreate(strategy, kind, obj)
}

// PrepareCreate sets the metadata that the server keeps, and lets the kind prepare obj.
func PrepareCreate(strategy Strategy, obj kinds.Object, now time.Time, uid types.UID) error {
	if obj.GetResourceVersion() != "" {
		return newStatusError(http.StatusInternalServerError, metav1.StatusReasonUnknown,
			"resourceVersion should not be set on objects to be created")
	}
	PrepareMetaForCreate(obj, now, uid)
	strategy.PrepareForCreate(obj, now)
	return nil
}

// ValidateCreate returns a 422 if the kind refuses a prepared object.
func ValidateCreate(strategy Strategy, kind kinds.Kind, obj kinds.Object) error {
	if errs := strategy.Validate(obj); len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// BeforeUpdate prepares and validates obj to replace old through a subresource ("" for the object
// itself): [PrepareUpdate] and [ValidateUpdate]. The error is an apierrors value. It does not
// compare versions; see [CheckVersion].
func BeforeUpdate(strategy Strategy, kind kinds.Kind, obj, old kinds.Object, subresource string) error {
	PrepareUpdate(strategy, obj, old, subresource)
	return ValidateUpdate(strategy, kind, obj, old, subresource)
}

// PrepareUpdate restores what this update may not change, and sets the defaults.
func PrepareUpdate(strategy Strategy, obj, old kinds.Object, subresource string) {
	obj.SetGeneration(old.GetGeneration())
	strategy.PrepareForUpdate(obj, old, subresource)
	PrepareMetaForUpdate(obj, old)
}

// ValidateUpdate returns a 422 if a prepared object may not replace old.
//
// The metadata rules are checked here and again by each kind, as upstream does. So the causes of a
// refusal repeat an error of the metadata, and the message does not (API-55, API-56).
func ValidateUpdate(strategy Strategy, kind kinds.Kind, obj, old kinds.Object, subresource string) error {
	errs := validation.ValidateObjectMetaAccessor(obj, kind.Namespaced, validatePathSegment, field.NewPath("metadata"))
	errs = sortPerField(append(errs, ValidateMetaUpdate(obj, old)...))
	errs = append(errs, strategy.ValidateUpdate(obj, old, subresource)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// MatchRequest compares a body's name and namespace with those of the request, and sets a missing
// namespace. For a create with a generated name, name is "". The error is a 400.
func MatchRequest(kind kinds.Kind, obj kinds.Object, namespace, name string) error {
	switch {
	case !kind.Namespaced:
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(namespace)
	case obj.GetNamespace() != namespace:
		return apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	if name != "" && obj.GetName() != name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
	return nil
}

// CheckUID refuses to replace an object with one that has another UID (API-63). It does not apply
// to patches: their UID is validated like any immutable field (API-64).
func CheckUID(kind kinds.Kind, obj, old kinds.Object) error {
	want, have := obj.GetUID(), old.GetUID()
	if want == "" || want == have {
		return nil
	}
	key := "/registry/" + kind.Resource
	if kind.Namespaced {
		key += "/" + old.GetNamespace()
	}
	return apierrors.NewConflict(kind.GroupResource(), old.GetName(), fmt.Errorf(
		"StorageError: invalid object, Code: 4, Key: %s/%s, ResourceVersion: 0, AdditionalErrorMsg: "+
			"Precondition failed: UID in precondition: %s, UID in object meta: %s", key, old.GetName(), want, have))
}

// CheckVersion refuses an update that was made from another version than old (API-65). An object
// without a resourceVersion gets old's, for the kinds that allow it: the last writer wins.
func CheckVersion(kind kinds.Kind, obj, old kinds.Object) error {
	have := obj.GetResourceVersion()
	if have == "" || have == "0" {
		if AllowsUnconditionalUpdate(kind) {
			obj.SetResourceVersion(old.GetResourceVersion())
			return nil
		}
		named := kind.GroupKind()
		named.Kind = kind.Resource // upstream's message has the resource where the kind belongs
		return apierrors.NewInvalid(named, old.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if _, err := strconv.ParseUint(have, 10, 64); err != nil {
		return apierrors.NewInvalid(kind.GroupKind(), old.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("resourceVersion"), have, err.Error()),
		})
	}
	if have != old.GetResourceVersion() {
		return apierrors.NewConflict(kind.GroupResource(), old.GetName(), fmt.Errorf(
			"the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// newStatusError returns an API error with this message and no details.
func newStatusError(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}
