package custom

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Schema is the schema of one version of a definition, ready to be applied. It is immutable and
// shared.
type Schema struct {
	version    *apiextensionsv1.CustomResourceDefinitionVersion
	structural *structuralschema.Structural
	// whole and status validate an object, and its status alone. status is nil if the schema does
	// not describe the status.
	whole, status *validate.SchemaValidator
	// rules is nil if there are none.
	rules *rules
}

var errNoSchema = errors.New("the version has no schema")

func newSchema(v *apiextensionsv1.CustomResourceDefinitionVersion) (*Schema, error) {
	structural, err := structuralOf(v)
	if err != nil {
		return nil, err
	}
	s := &Schema{version: v, structural: structural, whole: newValidator(structural.ToKubeOpenAPI())}
	if status, ok := structural.Properties["status"]; ok {
		s.status = newValidator(status.ToKubeOpenAPI())
	}
	s.rules, err = compileRules(structural, nil, nil)
	return s, err
}

// Structural returns the schema in apiextensions' form. It is shared.
func (s *Schema) Structural() *structuralschema.Structural { return s.structural }

// hasStatus reports whether the version has a status subresource.
func (s *Schema) hasStatus() bool {
	return s.version.Subresources != nil && s.version.Subresources.Status != nil
}

func (s *Schema) scale() *apiextensionsv1.CustomResourceSubresourceScale {
	if s.version.Subresources == nil {
		return nil
	}
	return s.version.Subresources.Scale
}

func structuralOf(v *apiextensionsv1.CustomResourceDefinitionVersion) (*structuralschema.Structural, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, errNoSchema
	}
	return structuralFrom(v.Schema.OpenAPIV3Schema)
}

func structuralFrom(props *apiextensionsv1.JSONSchemaProps) (*structuralschema.Structural, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props.DeepCopy(), internal, nil); err != nil {
		return nil, err
	}
	return structuralschema.NewStructural(internal)
}

func newValidator(schema *spec.Schema) *validate.SchemaValidator {
	convertExtensions(schema)
	return validate.NewSchemaValidator(schema, nil, "", strfmt.Default)
}

// convertExtensions expresses Kubernetes' extensions in OpenAPI's terms, and removes formats that
// are not checked, at every level of a schema.
func convertExtensions(s *spec.Schema) {
	if both, _ := s.Extensions.GetBool("x-kubernetes-int-or-string"); both {
		s.Type = spec.StringOrArray{"integer", "string"}
	}
	if !isKnownFormat(s) {
		s.Format = ""
	}
	if s.Items != nil && s.Items.Schema != nil {
		convertExtensions(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		convertExtensions(s.AdditionalProperties.Schema)
	}
	for name, property := range s.Properties {
		convertExtensions(&property)
		s.Properties[name] = property
	}
	for _, several := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range several {
			convertExtensions(&several[i])
		}
	}
	if s.Not != nil {
		convertExtensions(s.Not)
	}
}

// isKnownFormat is upstream's StripUnsupportedFormatsPostProcess.
func isKnownFormat(s *spec.Schema) bool {
	kind := ""
	if len(s.Type) == 1 {
		kind = s.Type[0]
	}
	switch kind {
	case "", "string":
		return slices.Contains(stringFormats(), strings.ReplaceAll(s.Format, "-", ""))
	case "integer":
		return s.Format == "int32" || s.Format == "int64"
	case "number":
		return s.Format == "float" || s.Format == "double"
	}
	return false
}

func stringFormats() []string {
	return []string{
		"bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
		"isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration",
		"datetime", "k8sshortname", "k8slongname",
	}
}
