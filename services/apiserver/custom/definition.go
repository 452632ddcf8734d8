package custom

import (
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/proto/kinds"
)

// Definition is a CustomResourceDefinition with its schemas. It is immutable; an update makes
// another Definition.
type Definition struct {
	CRD   *apiextensionsv1.CustomResourceDefinition
	kinds []kinds.Kind
	// schemas are keyed by version; each is built when it is first needed.
	schemas map[string]func() (*Schema, error)
}

func newDefinition(crd *apiextensionsv1.CustomResourceDefinition) *Definition {
	d := &Definition{CRD: crd, kinds: kinds.FromCRD(crd), schemas: map[string]func() (*Schema, error){}}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		d.schemas[v.Name] = sync.OnceValues(func() (*Schema, error) { return newSchema(v) })
	}
	return d
}

// StoredKind returns the kind of crd's objects in the storage version, whether that is served or
// not.
func StoredKind(crd *apiextensionsv1.CustomResourceDefinition) kinds.Kind {
	k := kinds.Kind{
		Resource: crd.Status.AcceptedNames.Plural, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, Custom: true,
	}
	k.Group, k.Kind = crd.Spec.Group, crd.Status.AcceptedNames.Kind
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			k.Version, k.StorageVersion = v.Name, v.Name
		}
	}
	return k
}

// Schema returns the schema of a version. Definitions are validated before they are stored, so an
// error is a bug of podfall: a 500.
func (d *Definition) Schema(version string) (*Schema, error) {
	build, ok := d.schemas[version]
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%s has no version %s", d.CRD.Name, version))
	}
	schema, err := build()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("schema of %s in %s: %w", d.CRD.Name, version, err))
	}
	return schema, nil
}

// pathSteps splits a simple JSON path, for example ".spec.replicas".
func pathSteps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// scalarAt returns the value at a simple JSON path as text; "" if there is none.
func scalarAt(obj kinds.Object, path string) string {
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	value, found, err := unstructured.NestedFieldNoCopy(custom.Object, pathSteps(path)...)
	if err != nil || !found || value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
