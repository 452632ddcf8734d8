package registry

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/internal/aliases"
	"github.com/podfall/podfall/proto/kinds"
)

// PatchDocument applies a JSON patch or a merge patch to an object in JSON, and returns the errors
// of strict decoding of the patch itself. Its errors are those of [ApplyPatch]; 415 is for a patch
// of another type.
func PatchDocument(document []byte, patchType types.PatchType, patch []byte) (patched []byte, unknown []error, err error) {
	if err := checkSize(patch); err != nil {
		return nil, nil, err
	}
	if err := checkDepth(patch); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	switch patchType {
	case types.JSONPatchType:
		patched, unknown, err = applyOperations(document, patch)
	case types.MergePatchType:
		patched, unknown, err = applyMerge(document, patch)
	case types.StrategicMergePatchType, types.ApplyYAMLPatchType, types.ApplyCBORPatchType:
		return nil, nil, unsupportedMediaType(string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType))
	default:
		return nil, nil, unsupportedMediaType(string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType))
	}
	if err != nil {
		return nil, nil, err
	}
	return patched, unknown, checkSize(patched)
}

// CheckJSON refuses a body that is too large (413) or nested too deeply (400) to be parsed.
func CheckJSON(body []byte) error {
	if err := checkSize(body); err != nil {
		return err
	}
	if err := checkDepth(body); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// CheckYAML refuses a body that would be too large once its aliases are expanded (413), and one
// with aliases that is no YAML (400).
func CheckYAML(body []byte) error {
	switch err := aliases.Check(body, MaxBody); {
	case errors.Is(err, aliases.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case err != nil:
		return apierrors.NewBadRequest(fmt.Sprintf("error converting YAML to JSON: %v", err))
	}
	return nil
}

// NewUndecodable returns the 400 for a body that is not an object of kind. gvk is what the body
// calls itself; nil if unknown.
func NewUndecodable(kind kinds.Kind, gvk *schema.GroupVersionKind, body []byte, err error) error {
	return undecodable(kind, gvk, body, err)
}

// NewInvalidPatch returns the 422 for a patch whose result, shown as text, is not an object of its
// kind.
func NewInvalidPatch(shown string, err error) error { return invalidPatch(shown, err) }

// NewUnsupportedMediaType returns the 415 that names the accepted types.
func NewUnsupportedMediaType(accepted ...string) error { return unsupportedMediaType(accepted...) }

// ValidateFinalizerNames returns everything that is wrong with the names of an object's finalizers
// (API-48).
func ValidateFinalizerNames(obj kinds.Object) field.ErrorList {
	return validateFinalizerNames(obj, field.NewPath("metadata"))
}
