package custom

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// fillDefaults sets the schema's defaults where value has nothing, or a null that is not allowed
// (upstream's defaulting.Default).
func fillDefaults(value any, s *structuralschema.Structural) {
	if s == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		fillMembers(value, s)
		for name := range value {
			within := propertyOf(s, name)
			if _, named := s.Properties[name]; !named && isForbiddenNull(value[name], within) {
				value[name] = runtime.DeepCopyJSONValue(within.Default.Object)
			}
			fillDefaults(value[name], within)
		}
	case []any:
		for i := range value {
			if isForbiddenNull(value[i], s.Items) {
				value[i] = runtime.DeepCopyJSONValue(s.Items.Default.Object)
			}
			fillDefaults(value[i], s.Items)
		}
	}
}

// fillMembers sets the members of an object that have a default of their own.
func fillMembers(value map[string]any, s *structuralschema.Structural) {
	for name, property := range s.Properties {
		if property.Default.Object == nil {
			continue
		}
		if have, found := value[name]; !found || isForbiddenNull(have, &property) {
			value[name] = runtime.DeepCopyJSONValue(property.Default.Object)
		}
	}
}

// dropNulls removes members that are null although they may not be, and that have no default
// (upstream's PruneNonNullableNullsWithoutDefaults).
func dropNulls(value any, s *structuralschema.Structural) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			within := propertyOf(s, name)
			if isForbiddenNull(member, within) && within.Default.Object == nil {
				delete(value, name)
				continue
			}
			dropNulls(member, within)
		}
	case []any:
		for i := range value {
			dropNulls(value[i], itemsOf(s))
		}
	}
}

func isForbiddenNull(value any, s *structuralschema.Structural) bool {
	return value == nil && s != nil && !s.Nullable
}

// propertyOf returns the schema of a member of an object; nil if there is none.
func propertyOf(s *structuralschema.Structural, name string) *structuralschema.Structural {
	if s == nil {
		return nil
	}
	if property, ok := s.Properties[name]; ok {
		return &property
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}

func itemsOf(s *structuralschema.Structural) *structuralschema.Structural {
	if s == nil {
		return nil
	}
	return s.Items
}
