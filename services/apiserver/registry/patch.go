package registry

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/podfall/podfall/proto/kinds"
)

// maxOperations is the largest number of operations in a JSON patch.
const maxOperations = 10000

// ApplyPatch applies a JSON patch, merge patch or strategic merge patch to old and returns the
// result. The patch is written against the version of kind. old and the result are in the preferred
// version. The strings are warnings for the client. old is not changed.
//
// # Errors
//
// 400 if the patch cannot be read, 413 if it is too large, 415 for another patch type, 422 if it
// does not fit the object.
func ApplyPatch(
	kind kinds.Kind, old kinds.Object, patchType types.PatchType, patch []byte, strict FieldValidation,
) (kinds.Object, []string, error) {
	if err := checkSize(patch); err != nil {
		return nil, nil, err
	}
	if err := checkDepth(patch); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	versioned, lost, err := kinds.Convert(old, kind.GroupVersionKind)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	if len(lost) > 0 {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf(
			"a patch in %s would drop what only newer versions have: %s", kind.GroupVersion(), lost[0]))
	}
	patched, err := applyPatchType(kind, versioned, patchType, patch)
	if err != nil {
		return nil, nil, err
	}
	warnings, err := patched.applyFieldValidation(strict)
	if err != nil {
		return nil, nil, err
	}
	obj, lost, err := toStored(patched.obj, kind.GroupVersionKind)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return obj, append(warnings, lost...), nil
}

// applyPatchType applies a patch of one of the three types.
func applyPatchType(kind kinds.Kind, old kinds.Object, patchType types.PatchType, patch []byte) (patchResult, error) {
	if patchType == types.StrategicMergePatchType {
		return patchStrategic(old, patch)
	}
	if patchType == types.JSONPatchType || patchType == types.MergePatchType {
		return patchJSON(kind, old, patchType, patch)
	}
	return patchResult{}, unsupportedMediaType(
		string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType))
}

// patchResult is a patched object, and the unknown fields that were found.
type patchResult struct {
	obj kinds.Object
	// shown is the invalid value in upstream's message.
	shown string
	// unknown has an error for each unknown field of the patch or of the patched object.
	unknown []error
}

// applyFieldValidation ignores unknown fields, or returns them as warnings or as an error.
func (r patchResult) applyFieldValidation(strict FieldValidation) ([]string, error) {
	if len(r.unknown) == 0 || strict == metav1.FieldValidationIgnore {
		return nil, nil
	}
	if strict != metav1.FieldValidationStrict {
		return errorTexts(r.unknown), nil
	}
	return nil, invalidPatch(r.shown, runtime.NewStrictDecodingError(r.unknown))
}

// invalidPatch returns the error for a patch whose result is not an object of its kind.
func invalidPatch(shown string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), shown, err.Error()),
	})
}

// patchJSON applies a JSON patch or a merge patch.
func patchJSON(kind kinds.Kind, old kinds.Object, patchType types.PatchType, patch []byte) (patchResult, error) {
	document, err := stdjson.Marshal(old)
	if err != nil {
		return patchResult{}, apierrors.NewInternalError(err)
	}
	var patched []byte
	var unknown []error
	if patchType == types.JSONPatchType {
		patched, unknown, err = applyOperations(document, patch)
	} else {
		patched, unknown, err = applyMerge(document, patch)
	}
	if err != nil {
		return patchResult{}, err
	}
	if err := checkSize(patched); err != nil {
		return patchResult{}, err
	}
	var obj kinds.Object
	gvk := kind.GroupVersionKind
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, kinds.Scheme(), kinds.Scheme(),
		json.SerializerOptions{Strict: true})
	decoded, got, err := serializer.Decode(patched, &gvk, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && decoded != nil {
		unknown, err = append(unknown, strict.Errors()...), nil
	}
	if err == nil {
		var fits bool
		if obj, fits = decoded.(kinds.Object); !fits || *got != gvk {
			err = fmt.Errorf("unable to decode %s into %s", got, gvk)
		}
	}
	if err != nil {
		return patchResult{}, invalidPatch(string(patched), err)
	}
	return patchResult{obj: obj, shown: string(patched), unknown: unknown}, nil
}

// recoverPatchPanic turns a panic of a patch library into an error. A few invalid patches that no
// check finds make the libraries panic, for example one that replaces the whole document by
// nothing.
func recoverPatchPanic[T any](apply func() (T, error)) (patched T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the patch cannot be applied: %v", cause)
		}
	}()
	return apply()
}

// operation is one step of a JSON patch, with the fields that strict decoding knows.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func applyOperations(document, patch []byte) ([]byte, []error, error) {
	var steps []operation
	unknown, err := kjson.UnmarshalStrict(patch, &steps)
	if err != nil {
		ours, theirs := fmt.Sprintf("%T", steps), "[]handlers.jsonPatchOp"
		return nil, nil, apierrors.NewBadRequest("error decoding patch: " + strings.ReplaceAll(err.Error(), ours, theirs))
	}
	for i, field := range unknown {
		unknown[i] = fmt.Errorf("json patch %w", field)
	}
	if len(steps) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(steps)))
	}
	limitCopies()
	parsed, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	patched, err := recoverPatchPanic(func() ([]byte, error) { return parsed.Apply(document) })
	if err != nil {
		return nil, nil, unprocessablePatch(err)
	}
	return patched, unknown, nil
}

// limitCopies bounds the bytes that copy operations add to a document. The library keeps the bound
// in a variable, which is set once, before its first use.
//
//nolint:gochecknoglobals // a function that runs once; nothing changes it
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = MaxBody })

func applyMerge(document, patch []byte) ([]byte, []error, error) {
	unknown, err := kjson.UnmarshalStrict(patch, &map[string]any{})
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	patched, err := recoverPatchPanic(func() ([]byte, error) { return jsonpatch.MergePatch(document, patch) })
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return patched, unknown, nil
}

// patchStrategic applies a patch that merges lists by the keys named in the Go types.
func patchStrategic(old kinds.Object, patch []byte) (patchResult, error) {
	changes := map[string]any{}
	unknown, err := kjson.UnmarshalStrict(patch, &changes)
	if err != nil {
		return patchResult{}, apierrors.NewBadRequest(err.Error())
	}
	document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
	if err != nil {
		return patchResult{}, apierrors.NewInternalError(err)
	}
	obj := newLike(old)
	shown := fmt.Sprintf("%+v", changes)
	patched, err := recoverPatchPanic(func() (strategicpatch.JSONMap, error) {
		return strategicpatch.StrategicMergeMapPatch(document, changes, obj)
	})
	if err != nil {
		return patchResult{}, strategicError(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(patched, obj, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		unknown, err = append(unknown, strict.Errors()...), nil
	}
	if err != nil {
		return patchResult{}, invalidPatch(shown, err)
	}
	return patchResult{obj: obj, shown: shown, unknown: unknown}, nil
}

// strategicError distinguishes a malformed patch (400), one that does not fit the object (422), and
// what upstream reports as an internal error (its interpretStrategicMergePatchError).
func strategicError(err error) error {
	for _, malformed := range []error{
		mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat,
	} {
		if errors.Is(err, malformed) {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	for _, unlike := range []error{mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys} {
		if errors.Is(err, unlike) {
			return unprocessablePatch(err)
		}
	}
	return newStatusError(http.StatusInternalServerError, metav1.StatusReasonUnknown, err.Error())
}

// unprocessablePatch returns the 422 for a well-formed patch that does not fit the object.
// Upstream's answer does not say why.
func unprocessablePatch(why error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", why.Error(), 0, false)
}
