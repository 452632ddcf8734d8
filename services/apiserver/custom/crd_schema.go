package custom

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rootSchema says what the schema of a version has to support.
type rootSchema struct {
	// status says that the version has a status subresource.
	status bool
}

// validateSchema returns everything that is wrong with the schema of a version: it must be
// structural, its defaults must fit it, it must not use what Kubernetes does not support, and its
// rules must compile.
func validateSchema(props *apiextensionsv1.JSONSchemaProps, root rootSchema, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if root.status && props.Type != "object" {
		errs = append(errs, field.Invalid(at.Child("type"), props.Type,
			`only "object" is allowed as the type at the root of the schema if the status subresource is enabled`))
	}
	if extra := forbiddenAtRoot(props); root.status && props.Type == "object" && len(extra) > 0 {
		errs = append(errs, field.Invalid(at, strings.Join(extra, ", "),
			"only Description, Type, Title, Required, Properties, ExternalDocs, Example, XPreserveUnknownFields, XValidations "+
				"and the like are allowed at the root of the schema if the status subresource is enabled"))
	}
	if props.Nullable {
		errs = append(errs, field.Forbidden(at.Child("nullable"), "nullable cannot be true at the root"))
	}
	structural, cannot := structuralFrom(props)
	if cannot == nil {
		wrong := structuralschema.ValidateStructural(at, structural)
		if len(wrong) == 0 {
			wrong = validateDefaults(structural, at)
		}
		errs = append(errs, wrong...)
	}
	errs = append(errs, validateProps(props, schemaPlace{root: true}, at)...)
	if len(errs) > 0 {
		return errs
	}
	if cannot != nil {
		return field.ErrorList{field.Invalid(at, "", cannot.Error())}
	}
	return validateRules(structural, at)
}

// forbiddenAtRoot returns the members of a root schema that would not apply to the status, which is
// validated alone.
func forbiddenAtRoot(s *apiextensionsv1.JSONSchemaProps) []string {
	var extra []string
	for _, member := range []struct {
		name string
		set  bool
	}{
		{"nullable", s.Nullable},
		{"enum", len(s.Enum) > 0},
		{"maxProperties", s.MaxProperties != nil},
		{"minProperties", s.MinProperties != nil},
		{"allOf", len(s.AllOf) > 0},
		{"oneOf", len(s.OneOf) > 0},
		{"anyOf", len(s.AnyOf) > 0},
		{"not", s.Not != nil},
		{"additionalProperties", s.AdditionalProperties != nil},
		{"x-kubernetes-embedded-resource", s.XEmbeddedResource},
		{"x-kubernetes-int-or-string", s.XIntOrString},
		{"x-kubernetes-map-type", s.XMapType != nil},
	} {
		if member.set {
			extra = append(extra, member.name)
		}
	}
	return extra
}

// validateDefaults requires every default to be valid by the schema at its place.
func validateDefaults(s *structuralschema.Structural, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if value := s.Default.Object; value != nil {
		where := at.Child("default")
		pruned := runtime.DeepCopyJSONValue(value)
		pruning.Prune(pruned, s, s.XEmbeddedResource)
		if !reflect.DeepEqual(pruned, value) {
			errs = append(errs, field.Invalid(where, value, "must not have unknown fields"))
		}
		errs = append(errs, validateEmbedded(value, s, where)...)
		errs = append(errs, validateValue(newValidator(s.ToKubeOpenAPI()), value, where)...)
	}
	errs = append(errs, validateDefaults(s.Items, at.Child("items"))...)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		errs = append(errs, validateDefaults(&property, at.Child("properties").Key(name))...)
	}
	return errs
}

// schemaPlace says where in a schema a part of it is.
type schemaPlace struct {
	root bool
	// meta says that the part describes metadata, apiVersion or kind of an object.
	meta bool
	// noDefault says why a default is forbidden; "" if it is allowed.
	noDefault string
}

// validateProps is upstream's ValidateCustomResourceDefinitionOpenAPISchema, for all parts.
func validateProps(s *apiextensionsv1.JSONSchemaProps, in schemaPlace, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := append(unsupportedProps(s, in, at), validateListType(s, at)...)
	errs = append(errs, validateMapType(s, at)...)
	errs = append(errs, validateRuleTexts(s.XValidations, at.Child("x-kubernetes-validations"))...)
	if s.UniqueItems {
		errs = append(errs, field.Forbidden(at.Child("uniqueItems"),
			"uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	if keep := s.XPreserveUnknownFields; keep != nil && !*keep {
		errs = append(errs, field.Invalid(at.Child("x-kubernetes-preserve-unknown-fields"), *keep, "must be true or undefined"))
	}
	if more := s.AdditionalProperties; more != nil {
		if len(s.Properties) > 0 && (!more.Allows || more.Schema != nil) {
			errs = append(errs, field.Forbidden(at.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
		below := schemaPlace{meta: in.meta, noDefault: in.noDefault}
		if in.meta {
			below.noDefault = "inside additionalProperties applying to object metadata"
		}
		errs = append(errs, validateProps(more.Schema, below, at.Child("additionalProperties"))...)
	}
	errs = append(errs, validateProperties(s, in, at.Child("properties"))...)
	if s.Items != nil {
		errs = append(errs, validateProps(s.Items.Schema, schemaPlace{meta: in.meta, noDefault: in.noDefault}, at.Child("items"))...)
	}
	return append(errs, validateLogic(s, schemaPlace{meta: in.meta, noDefault: in.noDefault}, at)...)
}

func validateProperties(s *apiextensionsv1.JSONSchemaProps, in schemaPlace, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property, below := s.Properties[name], schemaPlace{meta: in.meta, noDefault: in.noDefault}
		if (in.root || s.XEmbeddedResource) && slices.Contains([]string{"metadata", "kind", "apiVersion"}, name) {
			below.meta = true
			if in.root {
				below.noDefault = "in top-level " + name
			}
		}
		errs = append(errs, validateProps(&property, below, at.Key(name))...)
	}
	return errs
}

// validateLogic validates not, allOf, oneOf and anyOf, in which a structural schema has no rules.
func validateLogic(s *apiextensionsv1.JSONSchemaProps, in schemaPlace, at *field.Path) field.ErrorList {
	errs := validateProps(s.Not, in, at.Child("not"))
	for name, several := range map[string][]apiextensionsv1.JSONSchemaProps{"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf} {
		for i := range several {
			where := at.Child(name).Index(i)
			errs = append(errs, validateProps(&several[i], in, where)...)
		}
	}
	return errs
}

// unsupportedProps returns what OpenAPI has and Kubernetes does not support.
func unsupportedProps(s *apiextensionsv1.JSONSchemaProps, in schemaPlace, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	types := []string{"array", "boolean", "integer", "number", "object", "string"}
	if s.Type == "null" {
		errs = append(errs, field.Forbidden(at.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Type != "" && !slices.Contains(types, s.Type) {
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, types))
	}
	if s.Default != nil && in.noDefault != "" {
		errs = append(errs, field.Forbidden(at.Child("default"), "must not be set "+in.noDefault))
	}
	for _, unsupported := range []struct {
		name string
		set  bool
	}{
		{"id", s.ID != ""},
		{"additionalItems", s.AdditionalItems != nil},
		{"patternProperties", len(s.PatternProperties) > 0},
		{"definitions", len(s.Definitions) > 0},
		{"dependencies", s.Dependencies != nil},
		{"$ref", s.Ref != nil},
	} {
		if unsupported.set {
			errs = append(errs, field.Forbidden(at.Child(unsupported.name), unsupported.name+" is not supported"))
		}
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		errs = append(errs, field.Forbidden(at.Child("items"), "items must be a schema object and not an array"))
	}
	if in.meta && s.XEmbeddedResource {
		errs = append(errs, field.Forbidden(at.Child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))
	}
	return errs
}

func validateMapType(s *apiextensionsv1.JSONSchemaProps, at *field.Path) field.ErrorList {
	if s.XMapType == nil {
		return nil
	}
	var errs field.ErrorList
	const must = "must be object if x-kubernetes-map-type is specified"
	switch s.Type {
	case "object":
	case "":
		errs = append(errs, field.Required(at.Child("type"), must))
	default:
		errs = append(errs, field.Invalid(at.Child("type"), s.Type, must))
	}
	if kind := *s.XMapType; kind != "atomic" && kind != "granular" {
		errs = append(errs, field.NotSupported(at.Child("x-kubernetes-map-type"), kind, []string{"atomic", "granular"}))
	}
	return errs
}

// validateRuleTexts checks rules without compiling them.
func validateRuleTexts(rules apiextensionsv1.ValidationRules, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range rules {
		where, message := at.Index(i), strings.TrimSpace(r.Message)
		switch {
		case strings.TrimSpace(r.Rule) == "":
			errs = append(errs, field.Required(where.Child("rule"), "rule is not specified"))
		case r.Message != "" && message == "":
			errs = append(errs, field.Invalid(where.Child("message"), r.Message, "must be non-empty if specified"))
		case strings.ContainsAny(message, "\n\r"):
			errs = append(errs, field.Invalid(where.Child("message"), r.Message, "must not contain line breaks"))
		case strings.ContainsAny(strings.TrimSpace(r.Rule), "\n\r") && message == "":
			errs = append(errs, field.Required(where.Child("message"), "message must be specified if rule contains line breaks"))
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			errs = append(errs, field.Required(where.Child("messageExpression"), "messageExpression must be non-empty if specified"))
		}
		if reasons := validReasons(); r.Reason != nil && !slices.Contains(reasons, string(*r.Reason)) {
			errs = append(errs, field.NotSupported(where.Child("reason"), *r.Reason, reasons))
		}
	}
	return errs
}

func validReasons() []string {
	return []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}
}

// validateRules compiles the rules of a schema that is valid otherwise.
func validateRules(s *structuralschema.Structural, at *field.Path) field.ErrorList {
	costs := &costLedger{}
	_, err := compileRules(s, costs, at)
	if err == nil {
		return costs.findings(at)
	}
	wrong, ok := errors.AsType[*ruleError](err)
	if !ok {
		return field.ErrorList{field.InternalError(at.Child("x-kubernetes-validations"), err)}
	}
	return field.ErrorList{field.Invalid(wrong.at, wrong.shown, wrong.err.Error())}
}

// addUnknownFormats adds the formats that a schema names and that are not checked.
func addUnknownFormats(s *apiextensionsv1.JSONSchemaProps, into map[string]bool) {
	if s == nil {
		return
	}
	if s.Format != "" && (s.Type == "" || s.Type == "string") && !slices.Contains(stringFormats(), strings.ReplaceAll(s.Format, "-", "")) {
		into[s.Format] = true
	}
	for _, property := range s.Properties {
		addUnknownFormats(&property, into)
	}
	if s.Items != nil {
		addUnknownFormats(s.Items.Schema, into)
	}
	if s.AdditionalProperties != nil {
		addUnknownFormats(s.AdditionalProperties.Schema, into)
	}
}
