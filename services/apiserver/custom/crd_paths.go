package custom

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSubresources is upstream's ValidateCustomResourceDefinitionSubresources.
func validateSubresources(s *apiextensionsv1.CustomResourceSubresources, at *field.Path) field.ErrorList {
	if s == nil || s.Scale == nil {
		return nil
	}
	errs := validateReplicasPath(s.Scale.SpecReplicasPath, ".spec.", "should be a json path under .spec", at.Child("scale.specReplicasPath"))
	errs = append(errs, validateReplicasPath(s.Scale.StatusReplicasPath, ".status.", "should be a json path under .status",
		at.Child("scale.statusReplicasPath"))...)
	if path := s.Scale.LabelSelectorPath; path != nil && *path != "" {
		where := at.Child("scale.labelSelectorPath")
		if wrong := validatePath(*path, where); len(wrong) > 0 {
			errs = append(errs, wrong...)
		} else if !strings.HasPrefix(*path, ".spec.") && !strings.HasPrefix(*path, ".status.") {
			errs = append(errs, field.Invalid(where, *path, "should be a json path under either .spec or .status"))
		}
	}
	return errs
}

func validateReplicasPath(path, under, otherwise string, at *field.Path) field.ErrorList {
	if path == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if wrong := validatePath(path, at); len(wrong) > 0 {
		return wrong
	}
	if !strings.HasPrefix(path, under) {
		return field.ErrorList{field.Invalid(at, path, otherwise)}
	}
	return nil
}

func validatePath(path string, at *field.Path) field.ErrorList {
	if !strings.HasPrefix(path, ".") {
		return field.ErrorList{field.Invalid(at, path, "must be a simple json path starting with .")}
	}
	return nil
}

const (
	columnTypes   = "boolean,date,integer,number,string"
	columnFormats = "byte,date,date-time,double,float,int32,int64,password"
)

func listContains(list, value string) bool { return strings.Contains(","+list+",", ","+value+",") }

// validateColumn is upstream's ValidateCustomResourceColumnDefinition.
func validateColumn(column *apiextensionsv1.CustomResourceColumnDefinition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if column.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	switch {
	case column.Type == "":
		errs = append(errs, field.Required(at.Child("type"), "must be one of "+columnTypes))
	case !listContains(columnTypes, column.Type):
		errs = append(errs, field.Invalid(at.Child("type"), column.Type, "must be one of "+columnTypes))
	}
	if column.Format != "" && !listContains(columnFormats, column.Format) {
		errs = append(errs, field.Invalid(at.Child("format"), column.Format, "must be one of "+columnFormats))
	}
	if column.JSONPath == "" {
		return append(errs, field.Required(at.Child("JSONPath"), ""))
	}
	return append(errs, validatePath(column.JSONPath, at.Child("JSONPath"))...)
}

const maxSelectable = 8

// validateSelectable is upstream's ValidateCustomResourceSelectableFields.
func validateSelectable(v *apiextensionsv1.CustomResourceDefinitionVersion, at *field.Path) field.ErrorList {
	if len(v.SelectableFields) == 0 {
		return nil
	}
	structural, err := structuralOf(v)
	if err != nil {
		return nil // the schema's own validation says so
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, f := range v.SelectableFields {
		where := at.Index(i).Child("jsonPath")
		path := pathSteps(f.JSONPath)
		found := structural
		for _, step := range path {
			if property, ok := properties(found)[step]; ok {
				found = &property
			} else {
				found = nil
			}
		}
		switch {
		case f.JSONPath == "":
			errs = append(errs, field.Required(where, ""))
		case path[0] == "metadata":
			errs = append(errs, field.Invalid(where, f.JSONPath, "must not point to fields in metadata"))
		case found == nil:
			errs = append(errs, field.Invalid(where, f.JSONPath, "is an invalid path: does not refer to a valid field"))
		case !listContains("string,boolean,integer", found.Type):
			errs = append(errs, field.Invalid(where, f.JSONPath,
				"must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		case seen[f.JSONPath]:
			errs = append(errs, field.Duplicate(where, f.JSONPath))
		}
		seen[f.JSONPath] = true
	}
	if len(seen) > maxSelectable {
		errs = append(errs, field.TooMany(at, len(seen), maxSelectable))
	}
	return errs
}

func properties(s *structuralschema.Structural) map[string]structuralschema.Structural {
	if s == nil {
		return nil
	}
	return s.Properties
}
