package custom

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// normalizeMetadata reduces an object's metadata to the fields of metav1.ObjectMeta, and returns
// the paths of the others. The error is about a member of the wrong type.
func normalizeMetadata(object map[string]any, at *field.Path) (unknown []string, err error) {
	raw, found := object["metadata"]
	if !found {
		return nil, nil
	}
	meta, unknown, err := readMetadata(raw, at)
	if err != nil {
		return nil, err
	}
	tidied, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, err
	}
	if meta.CreationTimestamp.IsZero() {
		delete(tidied, "creationTimestamp")
	}
	object["metadata"] = tidied
	return unknown, nil
}

func readMetadata(raw any, at *field.Path) (*metav1.ObjectMeta, []string, error) {
	data, err := json.Marshal(raw)
	if err != nil {
		return nil, nil, err
	}
	meta := &metav1.ObjectMeta{}
	strict, err := kjson.UnmarshalStrict(data, meta)
	if err != nil {
		return nil, nil, err
	}
	var unknown []string
	for _, extra := range strict {
		if where, ok := errors.AsType[kjson.FieldError](extra); ok {
			unknown = append(unknown, at.Child("metadata").String()+"."+where.FieldPath())
		}
	}
	return meta, unknown, nil
}

// normalizeEmbedded normalizes the metadata of embedded resources.
func normalizeEmbedded(value any, s *structuralschema.Structural, at *field.Path) (unknown []string, err error) {
	if s == nil {
		return nil, nil
	}
	visit := func(member any, s *structuralschema.Structural, at *field.Path) error {
		more, err := normalizeEmbedded(member, s, at)
		unknown = append(unknown, more...)
		return err
	}
	switch value := value.(type) {
	case map[string]any:
		if s.XEmbeddedResource {
			if unknown, err = normalizeResource(value, at); err != nil {
				return nil, err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := visit(value[name], propertyOf(s, name), at.Child(name)); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range value {
			if err := visit(value[i], s.Items, at.Index(i)); err != nil {
				return nil, err
			}
		}
	}
	return unknown, nil
}

func normalizeResource(object map[string]any, at *field.Path) ([]string, error) {
	for _, name := range []string{"apiVersion", "kind"} {
		if value, found := object[name]; found {
			if _, ok := value.(string); !ok {
				return nil, field.Invalid(at.Child(name), value, "must be a string")
			}
		}
	}
	unknown, err := normalizeMetadata(object, at)
	if err != nil {
		return nil, field.Invalid(at.Child("metadata"), object["metadata"], err.Error())
	}
	return unknown, nil
}

// validateEmbedded returns everything that is wrong with the type and the metadata of embedded
// resources (upstream's objectmeta.Validate).
func validateEmbedded(value any, s *structuralschema.Structural, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	switch value := value.(type) {
	case map[string]any:
		if s.XEmbeddedResource {
			errs = append(errs, validateResource(value, at)...)
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			where := at.Child(name)
			if _, named := s.Properties[name]; !named {
				where = at.Key(name)
			}
			errs = append(errs, validateEmbedded(value[name], propertyOf(s, name), where)...)
		}
	case []any:
		for i := range value {
			errs = append(errs, validateEmbedded(value[i], s.Items, at.Index(i))...)
		}
	}
	return errs
}

func validateResource(object map[string]any, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []string{"apiVersion", "kind"} {
		value, found := object[name]
		where := at.Child(name)
		text, ok := value.(string)
		switch {
		case !found:
			errs = append(errs, field.Required(where, ""))
		case !ok:
			errs = append(errs, field.Invalid(where, value, "must be a string"))
		case text == "":
			errs = append(errs, field.Invalid(where, text, "must not be empty"))
		case name == "apiVersion":
			if _, err := schema.ParseGroupVersion(text); err != nil {
				errs = append(errs, field.Invalid(where, text, err.Error()))
			}
		default:
			if wrong := utilvalidation.IsDNS1035Label(strings.ToLower(text)); len(wrong) > 0 {
				errs = append(errs, field.Invalid(where, text,
					"may have mixed case, but should otherwise match: "+strings.Join(wrong, ",")))
			}
		}
	}
	return append(errs, validateResourceMeta(object, at)...)
}

func validateResourceMeta(object map[string]any, at *field.Path) field.ErrorList {
	raw, found := object["metadata"]
	if !found {
		return nil
	}
	where := at.Child("metadata")
	meta, _, err := readMetadata(raw, at)
	if err != nil {
		return field.ErrorList{field.Invalid(where, raw, fmt.Sprintf("failed to unmarshal metadata: %v", err))}
	}
	if meta.Name == "" {
		meta.Name = "fakename" // as upstream: an embedded resource may be without
	}
	anyName := func(name string, prefix bool) []string {
		if prefix {
			return content.IsPathSegmentPrefix(name)
		}
		return content.IsPathSegmentName(name)
	}
	return validation.ValidateObjectMeta(meta, meta.Namespace != "", anyName, where)
}
