package fieldmanager

import (
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/proto/kinds"
)

// converters builds a type converter per kind from the kind's definition. It reads a definition
// when it first meets the kind.
type converters struct {
	definitions *openapi.Definitions
	custom      Definitions

	mu    sync.Mutex
	known map[schema.GroupVersionKind]converter
}

// converter is the type converter of one kind.
type converter struct {
	managedfields.TypeConverter

	// crd is the definition that the converter was built from; nil for built-in kinds.
	crd *apiextensionsv1.CustomResourceDefinition
}

func newConverters(definitions *openapi.Definitions, custom Definitions) *converters {
	return &converters{definitions: definitions, custom: custom, known: map[schema.GroupVersionKind]converter{}}
}

// crd returns the definition of a custom kind; nil if there is none.
func (c *converters) crd(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	if c.custom == nil {
		return nil
	}
	return c.custom(gr)
}

// typeConverter adapts converters to the library's interface, for the versions of one kind.
type typeConverter struct {
	*converters

	kind kinds.Kind
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c typeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if !(versions{c.kind}).serves(gvk) {
		return nil, runtime.NewNotRegisteredErrForKind("podfall", gvk)
	}
	of, err := c.get(c.kind, gvk)
	if err != nil {
		return nil, err
	}
	return of.ObjectToTyped(obj, opts...)
}

// TypedToObject implements managedfields.TypeConverter.
func (typeConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	fields, ok := value.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object, not %T", value.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// get returns the converter of one version of a kind.
func (c *converters) get(kind kinds.Kind, gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	var crd *apiextensionsv1.CustomResourceDefinition
	if kind.Custom {
		if crd = c.crd(kind.GroupResource()); crd == nil {
			return nil, runtime.NewNotRegisteredErrForKind("podfall", gvk)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known[gvk]; ok && known.crd == crd {
		return known, nil
	}
	made, err := c.build(crd, gvk)
	if err != nil {
		return nil, err
	}
	c.known[gvk] = converter{made, crd}
	return made, nil
}

// build reads the definitions that a kind consists of.
func (c *converters) build(crd *apiextensionsv1.CustomResourceDefinition, gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	models := c.definitions.Closure(c.definitions.Name(gvk))
	if crd != nil {
		custom, err := openapi.FromCRD(crd, gvk.Version)
		if err != nil {
			return nil, err
		}
		models = c.definitions.Complete(custom)
	}
	schemas, err := models.Schemas()
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(schemas, crd != nil && crd.Spec.PreserveUnknownFields)
}

// versions converts objects of one kind between its versions, and creates empty ones.
type versions struct{ kind kinds.Kind }

// ConvertToVersion implements runtime.ObjectConvertor. It turns an object that a merge has produced
// into one of its kind's Go type.
func (v versions) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	target, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if gv, exact := to.(schema.GroupVersion); exact {
		target, ok = gv.WithKind(v.kind.Kind), true
	}
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("podfall", nil, to)
	}
	obj, err := v.toTyped(in)
	if err != nil {
		return nil, err
	}
	if !v.serves(target) {
		return nil, runtime.NewNotRegisteredErrForKind("podfall", target)
	}
	converted, _, err := kinds.Convert(obj, target)
	return converted, err
}

// serves reports whether gvk is one of the kind's versions.
func (v versions) serves(gvk schema.GroupVersionKind) bool {
	if v.kind.Custom {
		return gvk.GroupKind() == v.kind.GroupKind()
	}
	return kinds.Scheme().Recognizes(gvk)
}

// toTyped returns in as an object of its kind's Go type.
func (v versions) toTyped(in runtime.Object) (kinds.Object, error) {
	merged, generic := in.(*unstructured.Unstructured)
	if generic && !v.kind.Custom {
		obj, err := newEmpty(v.kind, merged.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged.Object, obj); err != nil {
			return nil, err
		}
		return obj, nil
	}
	obj, ok := in.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", in)
	}
	return obj, nil
}

// Convert implements runtime.ObjectConvertor; the library does not call it here.
func (versions) Convert(in, out, _ any) error {
	return fmt.Errorf("convert %T to %T: not served", in, out)
}

// ConvertFieldLabel implements runtime.ObjectConvertor; the library does not call it here.
func (versions) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// New implements runtime.ObjectCreater.
func (v versions) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return newEmpty(v.kind, gvk)
}

// newEmpty returns an empty object of a version of a kind. The kind may be one that is never
// stored, for example a Scale.
func newEmpty(kind kinds.Kind, gvk schema.GroupVersionKind) (kinds.Object, error) {
	if kind.Custom {
		kind.GroupVersionKind = gvk
		return kinds.NewOf(kind)
	}
	made, err := kinds.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	obj, ok := made.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", made)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// noDefaults leaves defaults to the kind's strategy, which fills them in later.
type noDefaults struct{}

// Default implements runtime.ObjectDefaulter.
func (noDefaults) Default(runtime.Object) {}
