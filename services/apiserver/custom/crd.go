package custom

import (
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// definitionStrategy is the strategy of CustomResourceDefinitions.
type definitionStrategy struct {
	kind    kinds.Kind
	catalog *Catalog
}

var _ registry.Strategy = definitionStrategy{}

// PrepareForCreate also accepts the definition's names, so that its creator can use it at once;
// upstream's controllers take a moment.
func (s definitionStrategy) PrepareForCreate(obj kinds.Object, now time.Time) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	crd.Generation = 1
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd) // the stored version included
	crd.Status = AcceptNames(crd, s.catalog.Definitions(), metav1.Unix(now.Unix(), 0))
}

func (s definitionStrategy) Validate(obj kinds.Object) field.ErrorList {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return notDefinitionError(obj)
	}
	rule := func(name string, prefix bool) []string {
		wrong := validation.NameIsDNSSubdomain(name, prefix)
		if name != crd.Spec.Names.Plural+"."+crd.Spec.Group {
			wrong = append(wrong, `must be spec.names.plural+"."+spec.group`)
		}
		return wrong
	}
	errs := validation.ValidateObjectMetaAccessor(obj, false, rule, field.NewPath("metadata"))
	errs = append(errs, registry.ValidateFinalizerNames(obj)...)
	return append(errs, validateDefinition(crd, nil)...)
}

func notDefinitionError(obj kinds.Object) field.ErrorList {
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("a CustomResourceDefinition is a %T", obj))}
}

func (s definitionStrategy) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	before, had := old.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || !had {
		return
	}
	if subresource == "status" {
		crd.Spec = *before.Spec.DeepCopy()
		return
	}
	crd.Status = *before.Status.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	if !kinds.Equal(crd.Spec, before.Spec) {
		crd.Generation = before.Generation + 1
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		}
	}
}

func (s definitionStrategy) ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	before, had := old.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || !had {
		return notDefinitionError(obj)
	}
	errs := registry.ValidateMetaUpdate(obj, old)
	if subresource == "status" {
		return append(errs, validateNames(&crd.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))...)
	}
	return append(errs, validateDefinition(crd, before)...)
}

// Warnings names formats that are not checked.
func (s definitionStrategy) Warnings(obj kinds.Object) []string {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for _, v := range crd.Spec.Versions {
		if v.Schema != nil {
			addUnknownFormats(v.Schema.OpenAPIV3Schema, seen)
		}
	}
	var warnings []string
	for format := range seen {
		warnings = append(warnings, fmt.Sprintf("unrecognized format %q", format))
	}
	slices.Sort(warnings)
	return warnings
}

func (definitionStrategy) Fields(obj kinds.Object) fields.Set {
	return fields.Set{"metadata.name": obj.GetName()}
}

func (definitionStrategy) Graceful(kinds.Object, *int64) (int64, bool) { return 0, false }

// PrepareForDelete returns obj with the finalizer that keeps a definition until its objects are
// deleted.
func (definitionStrategy) PrepareForDelete(obj kinds.Object, now time.Time) kinds.Object {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || crd.DeletionTimestamp != nil {
		return obj
	}
	crd = crd.DeepCopy()
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}, metav1.Unix(now.Unix(), 0))
	return crd
}
