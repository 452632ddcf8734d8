package custom

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// resources is the strategy of a custom kind in one version. Objects are in the stored version.
// They are validated by the schema of the requested version.
type resources struct {
	kind   kinds.Kind
	schema *Schema
	// schemaErr says why there is no schema.
	schemaErr error
	fields    func(obj kinds.Object) fields.Set
}

var _ registry.Strategy = resources{}

func (c *Catalog) resourceStrategy(kind kinds.Kind) resources {
	resource := kind.GroupResource().String()
	s := resources{kind: kind, fields: func(obj kinds.Object) fields.Set { return c.Fields(resource, obj) }}
	definition := c.Definition(resource)
	if definition == nil {
		s.schemaErr = fmt.Errorf("%s is not defined any longer", resource)
		return s
	}
	s.schema, s.schemaErr = definition.Schema(kind.Version)
	return s
}

func (s resources) PrepareForCreate(obj kinds.Object, _ time.Time) {
	if custom, ok := obj.(*unstructured.Unstructured); ok && s.schema != nil && s.schema.hasStatus() {
		delete(custom.Object, "status")
	}
	obj.SetGeneration(1)
}

func (s resources) Validate(obj kinds.Object) field.ErrorList {
	custom, errs := s.checkShape(obj)
	if len(errs) > 0 {
		return errs
	}
	errs = append(errs, registry.ValidateMeta(s.kind, obj)...)
	errs = append(errs, validateValue(s.schema.whole, custom.Object, nil)...)
	errs = append(errs, validateScale(custom, s.schema.scale())...)
	errs = append(errs, validateEmbedded(custom.Object, s.schema.structural, nil)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.schema.structural, custom.Object)...)
	return append(errs, s.checkRules(errs, custom.Object, nil)...)
}

// checkShape returns obj as an unstructured object, or why it is none of the kind.
func (s resources) checkShape(obj kinds.Object) (*unstructured.Unstructured, field.ErrorList) {
	if s.schemaErr != nil {
		return nil, field.ErrorList{field.InternalError(nil, s.schemaErr)}
	}
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, field.ErrorList{field.InternalError(nil, fmt.Errorf("a %s is a %T", s.kind.Kind, obj))}
	}
	return custom, validateType(custom, kinds.Preferred(s.kind).GroupVersion().String(), s.kind.Kind)
}

// checkRules evaluates the schema's rules, unless the errors in found prevent that.
func (s resources) checkRules(found field.ErrorList, obj, old any) field.ErrorList {
	if s.schema.rules == nil {
		return nil
	}
	if preventsRules(found) {
		return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; "+
			"correct the existing errors to complete validation")}
	}
	return s.schema.rules.check(obj, old)
}

func (s resources) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	now, ok := obj.(*unstructured.Unstructured)
	before, had := old.(*unstructured.Unstructured)
	if !ok || !had || s.schema == nil {
		return
	}
	if subresource == "status" {
		keepAllButStatus(now, before)
		return
	}
	if s.schema.hasStatus() {
		delete(now.Object, "status")
		if status, ok := before.Object["status"]; ok {
			now.Object["status"] = status
		}
	}
	if contentChanged(now.Object, before.Object) {
		now.SetGeneration(before.GetGeneration() + 1)
	}
}

// keepAllButStatus takes everything but the status and managedFields from before.
func keepAllButStatus(now, before *unstructured.Unstructured) {
	status, given := now.Object["status"]
	managed := now.GetManagedFields()
	now.Object = before.DeepCopy().Object
	now.SetManagedFields(managed)
	delete(now.Object, "status")
	if given {
		now.Object["status"] = status
	}
}

// contentChanged reports whether anything but metadata differs.
func contentChanged(now, before map[string]any) bool {
	for _, pair := range [][2]map[string]any{{now, before}, {before, now}} {
		for name, value := range pair[0] {
			if name == "metadata" || name == "apiVersion" {
				continue
			}
			if other, ok := pair[1][name]; !ok || !kinds.Equal(value, other) {
				return true
			}
		}
	}
	return false
}

func (s resources) ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList {
	now, errs := s.checkShape(obj)
	if len(errs) > 0 {
		return errs
	}
	before, errs := s.checkShape(old)
	if before == nil {
		return errs
	}
	errs = registry.ValidateMetaUpdate(obj, old)
	if subresource == "status" {
		if status, ok := now.Object["status"]; ok {
			errs = append(errs, validateChange(s.schema.status, status, before.Object["status"], field.NewPath("status"))...)
		}
	} else {
		errs = append(errs, validateChange(s.schema.whole, now.Object, before.Object, nil)...)
	}
	errs = append(errs, validateScale(now, s.schema.scale())...)
	errs = append(errs, validateEmbedded(now.Object, s.schema.structural, nil)...)
	if len(listtype.ValidateListSetsAndMaps(nil, s.schema.structural, before.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.schema.structural, now.Object)...)
	}
	return append(errs, s.checkRules(errs, now.Object, before.Object)...)
}

// Warnings names finalizers that may conflict with others.
func (s resources) Warnings(obj kinds.Object) []string {
	var warnings []string
	for _, name := range obj.GetFinalizers() {
		switch name {
		case "kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
			continue
		}
		for _, wrong := range utilvalidation.IsQualifiedName(name) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, wrong))
		}
		if !strings.Contains(name, "/") {
			better := ""
			if strings.Contains(name, ".") {
				better = " including a path (/)"
			}
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name%s "+
				"to avoid accidental conflicts with other finalizer writers", name, better))
		}
	}
	slices.Sort(warnings)
	return warnings
}

func (s resources) Fields(obj kinds.Object) fields.Set { return s.fields(obj) }

func (resources) Graceful(kinds.Object, *int64) (int64, bool) { return 0, false }
