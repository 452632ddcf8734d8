package gateway

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

func TestDeprecation(t *testing.T) {
	named := func(resource string) kinds.Kind {
		kind, ok := kinds.ByResource(resource)
		if !ok {
			t.Fatalf("no %s", resource)
		}
		return kind
	}
	custom := func(version string) kinds.Kind {
		return kinds.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Shirt"}, Custom: true}
	}
	shirts := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1alpha1", Served: true, Deprecated: true, DeprecationWarning: new("too tight")},
			{Name: "v1beta1", Served: true, Deprecated: true},
			{Name: "v1", Served: true},
			{Name: "v2", Served: true},
			{Name: "v3", Served: false},
		},
	}}
	for _, c := range []struct {
		kind    kinds.Kind
		crd     *apiextensionsv1.CustomResourceDefinition
		release string
		want    string
	}{
		{named("pods"), nil, "v1.37", ""},
		{named("endpoints"), nil, "v1.37", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
		{named("endpoints"), nil, "v1.33", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"},
		{named("endpoints"), nil, "v1.22", ""},
		{named("componentstatuses"), nil, "v1.22", "v1 ComponentStatus is deprecated in v1.19+"},
		{custom("v1alpha1"), shirts, "v1.37", "too tight"},
		{custom("v1beta1"), shirts, "v1.37", "example.com/v1beta1 Shirt is deprecated; use example.com/v2 Shirt"},
		{custom("v1"), shirts, "v1.37", ""},
	} {
		if got := deprecationWarning(c.kind, c.crd, c.release); got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.kind.GroupVersionKind, c.release, got, c.want)
		}
	}
}
