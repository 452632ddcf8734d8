package custom

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateListType is upstream's check of x-kubernetes-list-type and its keys.
func validateListType(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
	if s.XListType == nil {
		if len(s.XListMapKeys) > 0 {
			return field.ErrorList{field.Required(at.Child("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty")}
		}
		return nil
	}
	var errs field.ErrorList
	const must = "must be array if x-kubernetes-list-type is specified"
	switch s.Type {
	case "array":
	case "":
		errs = append(errs, field.Required(at.Child("type"), must))
	default:
		errs = append(errs, field.Invalid(at.Child("type"), s.Type, must))
	}
	switch kind := *s.XListType; kind {
	case "atomic":
	case "set":
		errs = append(errs, validateSetItems(s, at.Child("items"))...)
	case "map":
		return append(errs, validateMapItems(s, at)...)
	default:
		errs = append(errs, field.NotSupported(at.Child("x-kubernetes-list-type"), kind, []string{"atomic", "set", "map"}))
	}
	if len(s.XListMapKeys) > 0 {
		errs = append(errs, field.Invalid(at.Child("x-kubernetes-list-type"), *s.XListType, "must be map if x-kubernetes-list-map-keys is non-empty"))
	}
	return errs
}

func validateSetItems(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
	if s.Items == nil || s.Items.Schema == nil {
		return nil
	}
	var errs field.ErrorList
	const must = "must be atomic as item of a list with x-kubernetes-list-type=set"
	item := s.Items.Schema
	if item.Nullable {
		errs = append(errs, field.Forbidden(at.Child("nullable"), "cannot be nullable when x-kubernetes-list-type is set"))
	}
	switch {
	case item.Type == "array" && item.XListType != nil && *item.XListType != "atomic":
		errs = append(errs, field.Invalid(at.Child("x-kubernetes-list-type"), *item.XListType, must))
	case item.Type == "object" && (item.XMapType == nil || *item.XMapType != "atomic"):
		errs = append(errs, field.Invalid(at.Child("x-kubernetes-map-type"), item.XMapType, must))
	}
	return errs
}

func validateMapItems(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	keys := at.Child("x-kubernetes-list-map-keys")
	if len(s.XListMapKeys) == 0 {
		errs = append(errs, field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	items := at.Child("items")
	switch {
	case s.Items == nil:
		return append(errs, field.Required(items, "must have a schema if x-kubernetes-list-type is map"))
	case s.Items.Schema == nil:
		return append(errs, field.Invalid(items, "", "must only have a single schema if x-kubernetes-list-type is map"))
	case s.Items.Schema.Type != "object":
		return append(errs, field.Invalid(items.Child("type"), s.Items.Schema.Type, "must be object if parent array's x-kubernetes-list-type is map"))
	}
	item := s.Items.Schema
	if item.Nullable {
		errs = append(errs, field.Forbidden(items.Child("nullable"), "cannot be nullable when x-kubernetes-list-type is map"))
	}
	for i, key := range s.XListMapKeys {
		if slices.Contains(s.XListMapKeys[:i], key) {
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
		property, ok := item.Properties[key]
		where := items.Child("properties").Key(key)
		if !ok {
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
			continue
		}
		if property.Type == "array" || property.Type == "object" {
			errs = append(errs, field.Invalid(where.Child("type"), property.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if !slices.Contains(item.Required, key) && property.Default == nil {
			errs = append(errs, field.Required(where.Child("default"),
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if property.Nullable {
			errs = append(errs, field.Forbidden(where.Child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return errs
}
