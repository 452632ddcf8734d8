package custom

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// validateDefinition returns everything that is wrong with a definition besides its metadata, in
// upstream's words (its ValidateCustomResourceDefinition and …Update); old is nil for a new one. It
// also refuses what podfall cannot do: conversion by webhooks.
func validateDefinition(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	at := field.NewPath("spec")
	errs := validateGroup(crd.Spec.Group, at.Child("group"))
	errs = append(errs, oneOf(at.Child("scope"), string(crd.Spec.Scope), "Cluster", "Namespaced")...)
	errs = append(errs, validateVersions(crd, at.Child("versions"))...)
	errs = append(errs, requireNames(&crd.Spec.Names, at.Child("names"))...)
	errs = append(errs, validateNames(&crd.Spec.Names, at.Child("names"))...)
	errs = append(errs, validateConversion(crd.Spec.Conversion, at.Child("conversion"))...)
	if crd.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(at.Child("preserveUnknownFields"), true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	errs = append(errs, validateStored(crd)...)
	errs = append(errs, validateApproval(crd, old)...)
	if old == nil {
		return errs
	}
	if apihelpers.IsCRDConditionTrue(old, apiextensionsv1.Established) {
		errs = append(errs, validation.ValidateImmutableField(crd.Spec.Scope, old.Spec.Scope, at.Child("scope"))...)
		errs = append(errs, validation.ValidateImmutableField(crd.Spec.Names.Kind, old.Spec.Names.Kind, at.Child("names", "kind"))...)
	}
	errs = append(errs, validation.ValidateImmutableField(crd.Spec.Group, old.Spec.Group, at.Child("group"))...)
	return append(errs, validation.ValidateImmutableField(crd.Spec.Names.Plural, old.Spec.Names.Plural, at.Child("names", "plural"))...)
}

func validateGroup(group string, at *field.Path) field.ErrorList {
	if group == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if wrong := utilvalidation.IsDNS1123Subdomain(group); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(at, group, strings.Join(wrong, ","))}
	}
	if !strings.Contains(group, ".") {
		return field.ErrorList{field.Invalid(at, group, "should be a domain with at least one dot")}
	}
	return nil
}

func oneOf(at *field.Path, value string, accepted ...string) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, "")}
	case !slices.Contains(accepted, value):
		return field.ErrorList{field.NotSupported(at, value, accepted)}
	}
	return nil
}

func validateVersions(crd *apiextensionsv1.CustomResourceDefinition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	storage, seen, twice := 0, map[string]bool{}, false
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Storage {
			storage++
		}
		twice = twice || seen[v.Name]
		seen[v.Name] = true
		if wrong := utilvalidation.IsDNS1035Label(v.Name); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), v.Name, strings.Join(wrong, ",")))
		}
		errs = append(errs, validateVersion(crd, v, at.Index(i))...)
	}
	if twice {
		errs = append(errs, field.Invalid(at, versionNames(crd.Spec.Versions), "must contain unique version names"))
	}
	if storage != 1 {
		errs = append(errs, field.Invalid(at, versionNames(crd.Spec.Versions), "must have exactly one version marked as storage version"))
	}
	return errs
}

func versionNames(versions []apiextensionsv1.CustomResourceDefinitionVersion) []string {
	var all []string
	for _, v := range versions {
		all = append(all, v.Name)
	}
	return all
}

func validateVersion(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, wrong := range deprecationErrors(v) {
		errs = append(errs, field.Invalid(at.Child("deprecationWarning"), v.DeprecationWarning, wrong))
	}
	schemaAt := at.Child("schema", "openAPIV3Schema")
	if hasSharedSchema(crd) { // upstream's internal form keeps what all versions share in one place
		schemaAt = field.NewPath("spec", "validation", "openAPIV3Schema")
	}
	switch {
	case v.Schema == nil || v.Schema.OpenAPIV3Schema == nil:
		errs = append(errs, field.Required(schemaAt, ""))
	case !hasSharedSchema(crd) || v == &crd.Spec.Versions[0]:
		status := v.Subresources != nil && v.Subresources.Status != nil
		errs = append(errs, validateSchema(v.Schema.OpenAPIV3Schema, rootSchema{status: status}, schemaAt)...)
	}
	spec, first := field.NewPath("spec"), v == &crd.Spec.Versions[0]
	subresources := func(v apiextensionsv1.CustomResourceDefinitionVersion) any { return v.Subresources }
	if where, once := errorPath(crd, subresources, spec, at); !once || first {
		errs = append(errs, validateSubresources(v.Subresources, where.Child("subresources"))...)
	}
	columns := func(v apiextensionsv1.CustomResourceDefinitionVersion) any { return v.AdditionalPrinterColumns }
	if where, once := errorPath(crd, columns, spec, at); !once || first {
		for i := range v.AdditionalPrinterColumns {
			errs = append(errs, validateColumn(&v.AdditionalPrinterColumns[i], where.Child("additionalPrinterColumns").Index(i))...)
		}
	}
	selectable := func(v apiextensionsv1.CustomResourceDefinitionVersion) any { return v.SelectableFields }
	if where, once := errorPath(crd, selectable, spec, at); !once || first {
		errs = append(errs, validateSelectable(v, where.Child("selectableFields"))...)
	}
	return errs
}

// errorPath returns where upstream keeps a part of the versions in its internal form, and so the
// path in its errors: once under spec if all versions agree on the part, else in each version.
func errorPath(
	crd *apiextensionsv1.CustomResourceDefinition, part func(apiextensionsv1.CustomResourceDefinitionVersion) any,
	spec, version *field.Path,
) (where *field.Path, once bool) {
	first := part(crd.Spec.Versions[0])
	for _, v := range crd.Spec.Versions {
		if !kinds.Equal(part(v), first) {
			return version, false
		}
	}
	return spec, true
}

// hasSharedSchema reports whether all versions of a definition have the same schema.
func hasSharedSchema(crd *apiextensionsv1.CustomResourceDefinition) bool {
	first := crd.Spec.Versions[0].Schema
	return first != nil && !slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Schema == nil || !kinds.Equal(v.Schema, first)
	})
}

func deprecationErrors(v *apiextensionsv1.CustomResourceDefinitionVersion) []string {
	switch text := v.DeprecationWarning; {
	case text == nil:
		return nil
	case !v.Deprecated:
		return []string{"can only be set for deprecated versions"}
	case *text == "":
		return []string{"must not be an empty string"}
	case len(*text) > 256:
		return []string{"must be <= 256 characters long"}
	case strings.ContainsFunc(*text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return []string{"must only contain printable UTF-8 characters"}
	}
	return nil
}

func requireNames(names *apiextensionsv1.CustomResourceDefinitionNames, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, required := range []struct{ name, value string }{
		{"plural", names.Plural}, {"singular", names.Singular}, {"kind", names.Kind}, {"listKind", names.ListKind},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(at.Child(required.name), ""))
		}
	}
	return errs
}

// validateNames is upstream's ValidateCustomResourceDefinitionNames.
func validateNames(names *apiextensionsv1.CustomResourceDefinitionNames, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	each := func(at *field.Path, value, form, introduction string) {
		if wrong := utilvalidation.IsDNS1035Label(form); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at, value, introduction+strings.Join(wrong, ",")))
		}
	}
	label := func(at *field.Path, value, form, introduction string) {
		if value != "" {
			each(at, value, form, introduction)
		}
	}
	const mixed = "may have mixed case, but should otherwise match: "
	label(at.Child("plural"), names.Plural, names.Plural, "")
	label(at.Child("singular"), names.Singular, names.Singular, "")
	label(at.Child("kind"), names.Kind, strings.ToLower(names.Kind), mixed)
	label(at.Child("listKind"), names.ListKind, strings.ToLower(names.ListKind), mixed)
	for i, short := range names.ShortNames {
		each(at.Child("shortNames").Index(i), short, short, "")
	}
	if names.Kind != "" && names.Kind == names.ListKind {
		errs = append(errs, field.Invalid(at.Child("listKind"), names.ListKind, "kind and listKind may not be the same"))
	}
	for i, category := range names.Categories {
		each(at.Child("categories").Index(i), category, category, "")
	}
	return errs
}

// validateConversion allows versions that differ only in their names.
func validateConversion(conversion *apiextensionsv1.CustomResourceConversion, at *field.Path) field.ErrorList {
	if conversion == nil {
		return nil
	}
	if conversion.Strategy == apiextensionsv1.WebhookConverter {
		return field.ErrorList{
			field.NotSupported(at.Child("strategy"), conversion.Strategy, []string{string(apiextensionsv1.NoneConverter)}),
			field.Forbidden(at.Child("webhook"), "podfall calls no conversion webhooks: "+
				"leave spec.conversion out, or serve one version, if the versions differ in more than their names"),
		}
	}
	errs := oneOf(at.Child("strategy"), string(conversion.Strategy), "None", "Webhook")
	if conversion.Webhook != nil {
		errs = append(errs, field.Forbidden(at.Child("webhookClientConfig"), "should not be set when strategy is not set to Webhook"))
	}
	return errs
}

// validateStored requires the versions in which objects may be stored.
func validateStored(crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	at, stored := field.NewPath("status", "storedVersions"), crd.Status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(at, stored, "must have at least one stored version")}
	}
	var errs field.ErrorList
	known := versionNames(crd.Spec.Versions)
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(stored, v.Name) {
			errs = append(errs, field.Invalid(at, stored, "must have the storage version "+v.Name))
		}
	}
	for i, name := range stored {
		if !slices.Contains(known, name) {
			errs = append(errs, field.Invalid(at.Index(i), name, fmt.Sprintf(
				"missing from spec.versions; %[1]s was previously a storage version, and must remain in spec.versions until a "+
					"storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions", name)))
		}
	}
	return errs
}

// validateApproval refuses definitions in Kubernetes' own groups, unless an annotation approves
// them.
func validateApproval(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return nil
	}
	state, reason := apihelpers.GetAPIApprovalState(crd.Annotations)
	if old != nil {
		if before, _ := apihelpers.GetAPIApprovalState(old.Annotations); before == state {
			return nil
		}
	}
	at := field.NewPath("metadata", "annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation)
	switch state {
	case apihelpers.APIApproved, apihelpers.APIApprovalBypassed:
		return nil
	case apihelpers.APIApprovalMissing:
		return field.ErrorList{field.Required(at, reason)}
	case apihelpers.APIApprovalInvalid:
	}
	return field.ErrorList{field.Invalid(at, crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation], reason)}
}
