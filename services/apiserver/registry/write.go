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

// BeforeCreate makes obj ready to be stored as a new object with the given UID, or says
// in an apierrors value why it cannot be: [PrepareCreate] and [ValidateCreate].
func BeforeCreate(strategy Strategy, kind kinds.Kind, obj kinds.Object, now time.Time, uid types.UID) error {
	if err := PrepareCreate(strategy, obj, now, uid); err != nil {
		return err
	}
	return ValidateCreate(strategy, kind, obj)
}

// PrepareCreate sets the metadata that the server keeps, and lets the kind prepare obj.
func PrepareCreate(strategy Strategy, obj kinds.Object, now time.Time, uid types.UID) error {
	if obj.GetResourceVersion() != "" {
		return plainError(http.StatusInternalServerError, metav1.StatusReasonUnknown,
			"resourceVersion should not be set on objects to be created")
	}
	PrepareMetaForCreate(obj, now, uid)
	strategy.PrepareForCreate(obj, now)
	return nil
}

// ValidateCreate is what the kind refuses of a prepared object. The error is a 422.
func ValidateCreate(strategy Strategy, kind kinds.Kind, obj kinds.Object) error {
	if errs := strategy.Validate(obj); len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// BeforeUpdate makes obj ready to replace old through a subresource ("" for the object
// itself), or says in an apierrors value why it cannot: [PrepareUpdate] and
// [ValidateUpdate]. It does not compare versions; see [CheckVersion].
func BeforeUpdate(strategy Strategy, kind kinds.Kind, obj, old kinds.Object, subresource string) error {
	PrepareUpdate(strategy, obj, old, subresource)
	return ValidateUpdate(strategy, kind, obj, old, subresource)
}

// PrepareUpdate puts back what this update may not change, and fills in the defaults.
func PrepareUpdate(strategy Strategy, obj, old kinds.Object, subresource string) {
	obj.SetGeneration(old.GetGeneration())
	strategy.PrepareForUpdate(obj, old, subresource)
	PrepareMetaForUpdate(obj, old)
}

// ValidateUpdate is what keeps a prepared object from replacing old. The error is a 422.
//
// The metadata rules are asked here and once more by each kind, as upstream does, so that
// the causes of a refusal name what they find twice and its message once (API-55, API-56).
func ValidateUpdate(strategy Strategy, kind kinds.Kind, obj, old kinds.Object, subresource string) error {
	errs := validation.ValidateObjectMetaAccessor(obj, kind.Namespaced, pathSegment, field.NewPath("metadata"))
	errs = steady(append(errs, ValidateMetaUpdate(obj, old)...))
	errs = append(errs, strategy.ValidateUpdate(obj, old, subresource)...)
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// MatchRequest compares a body with the place that the request names, and gives obj the
// request's namespace when it has none. A create whose name is the server's choice passes
// the name "". The error is a 400.
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

// CheckUID refuses to put an object with one UID in the place of an object with another
// (API-63). A patch is not asked: its UID is validated like any immutable field (API-64).
func CheckUID(kind kinds.Kind, obj, old kinds.Object) error {
	asked, have := obj.GetUID(), old.GetUID()
	if asked == "" || asked == have {
		return nil
	}
	key := "/registry/" + kind.Resource
	if kind.Namespaced {
		key += "/" + old.GetNamespace()
	}
	return apierrors.NewConflict(kind.GroupResource(), old.GetName(), fmt.Errorf(
		"StorageError: invalid object, Code: 4, Key: %s/%s, ResourceVersion: 0, AdditionalErrorMsg: "+
			"Precondition failed: UID in precondition: %s, UID in object meta: %s", key, old.GetName(), asked, have))
}

// CheckVersion refuses an update that was made from another version than old (API-65). An
// object without a resourceVersion gets old's: the last writer wins, for the kinds that
// allow it.
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

// plainError is an API error whose message is the message and nothing else.
func plainError(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}
