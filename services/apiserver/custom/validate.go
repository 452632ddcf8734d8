package custom

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/podfall/podfall/proto/kinds"
)

// validateValue returns everything that is wrong with a value by its schema, in the order of the
// fields, in the words of upstream's ValidateCustomResource.
func validateValue(schema *validate.SchemaValidator, value any, at *field.Path) field.ErrorList {
	if schema == nil {
		return nil
	}
	var errs field.ErrorList
	for _, err := range schema.Validate(value).Errors {
		errs = append(errs, fieldError(err, at))
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Error(), b.Error()))
	})
	return errs
}

func fieldError(err error, at *field.Path) *field.Error {
	found, ok := errors.AsType[*openapierrors.Validation](err)
	if !ok {
		return field.Invalid(at, "", err.Error())
	}
	if name := strings.TrimPrefix(found.Name, "."); name != "" {
		at = at.Child(name)
	}
	value := found.Value
	if value == nil {
		value = ""
	}
	switch found.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.EnumFailCode:
		return field.NotSupported(at, found.Value, valueTexts(found.Values))
	case openapierrors.TooLongFailCode:
		return field.TooLong(at, "", asInt(found.Valid))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(at, asInt(found.Value), asInt(found.Valid))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, value, err.Error())
	}
	return field.Invalid(at, value, err.Error())
}

func valueTexts(values []any) []string {
	all := []string{}
	for _, value := range values {
		text, ok := value.(string)
		if !ok {
			data, _ := json.Marshal(value) // it came out of JSON
			text = string(data)
		}
		all = append(all, text)
	}
	return all
}

func asInt(value any) int {
	if n, ok := value.(int64); ok {
		return int(n)
	}
	return -1
}

// validateChange is validateValue without errors in unchanged parts of the value, so that a
// definition may become stricter than the stored objects (upstream's ratcheting).
func validateChange(schema *validate.SchemaValidator, now, before any, at *field.Path) field.ErrorList {
	return slices.DeleteFunc(validateValue(schema, now, at), func(err *field.Error) bool {
		where := strings.TrimPrefix(err.Field, at.String()+".")
		if err.Type == field.ErrorTypeRequired {
			where, _, _ = cutLast(where) // what is missing is missing in its parent
		}
		have, ok := valueAt(now, where)
		had, was := valueAt(before, where)
		return ok && was && kinds.Equal(have, had)
	})
}

func cutLast(path string) (before, last string, found bool) {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		return "", path, false
	}
	return path[:at], path[at+1:], true
}

// valueAt returns the value at a path in an error: "spec.ports[0].name".
func valueAt(value any, path string) (any, bool) {
	for step := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch within := value.(type) {
		case map[string]any:
			member, ok := within[step]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			var i int
			if _, err := fmt.Sscanf(step, "%d", &i); err != nil || i < 0 || i >= len(within) {
				return nil, false
			}
			value = within[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// validateType requires an object to have the kind and apiVersion of the request.
func validateType(obj *unstructured.Unstructured, apiVersion, kind string) field.ErrorList {
	var errs field.ErrorList
	if obj.GetKind() != kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), obj.GetKind(), "must be "+kind))
	}
	if obj.GetAPIVersion() != apiVersion {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), obj.GetAPIVersion(), "must be "+apiVersion))
	}
	return errs
}

// validateScale returns everything that is wrong with the numbers in the scale subresource.
func validateScale(obj *unstructured.Unstructured, scale *apiextensionsv1.CustomResourceSubresourceScale) field.ErrorList {
	if scale == nil {
		return nil
	}
	errs := append(validateReplicas(obj, scale.SpecReplicasPath), validateReplicas(obj, scale.StatusReplicasPath)...)
	if path := scale.LabelSelectorPath; path != nil {
		if selector, _, err := unstructured.NestedString(obj.Object, pathSteps(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), selector, err.Error()))
		}
	}
	return errs
}

func validateReplicas(obj *unstructured.Unstructured, path string) field.ErrorList {
	replicas, _, err := unstructured.NestedInt64(obj.Object, pathSteps(path)...)
	at := field.NewPath(path)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, replicas, err.Error())}
	case replicas < 0:
		return field.ErrorList{field.Invalid(at, replicas, "should be a non-negative integer")}
	case replicas > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, replicas, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32))}
	}
	return nil
}

// preventsRules reports whether errs leave an object in a shape for which rules cannot be
// evaluated.
func preventsRules(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return true
		case field.ErrorTypeNotFound, field.ErrorTypeDuplicate, field.ErrorTypeInvalid, field.ErrorTypeForbidden,
			field.ErrorTypeInternal, field.ErrorTypeTooFew, field.ErrorTypeTooShort:
		}
		return false
	})
}
