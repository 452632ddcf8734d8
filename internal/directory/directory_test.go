package directory_test

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

func widgets(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "widgets", Singular: "widget", ShortNames: []string{"wd", "po"}, Kind: "Widget", ListKind: "WidgetList",
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: names,
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			},
		},
	}
	for i, v := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions,
			apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true, Storage: i == 0})
	}
	return crd
}

// scriptedAPI returns a list and then sends events.
type scriptedAPI struct {
	items  []kinds.Object
	events []watch.Event
	step   func()
}

func (s scriptedAPI) List(_ context.Context, t podapi.Target, _ metav1.ListOptions) (*podapi.List, error) {
	if t.Kind.Kind != "CustomResourceDefinition" {
		panic("lists " + t.String())
	}
	return &podapi.List{Items: s.items}, nil
}

func (s scriptedAPI) Follow(_ context.Context, _ podapi.Target, _ metav1.ListOptions, sink podapi.Sink) error {
	sink.Replace(s.items, "1")
	s.step()
	for _, event := range s.events {
		sink.Apply(event)
		s.step()
	}
	return context.Canceled
}

func TestEmptyDirectoryHasTheBuiltInKinds(t *testing.T) {
	t.Parallel()
	d := directory.New()
	if got, want := len(d.All()), len(kinds.ServedByDefault()); got != want {
		t.Errorf("%d kinds, want %d", got, want)
	}
	for gvr, want := range map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "pods"}:                            "/v1, Kind=Pod",
		{Resource: "pods"}:                                           "/v1, Kind=Pod",
		{Group: "apps", Version: "v1beta2", Resource: "deployments"}: "", // of another day
		{Group: "apps", Resource: "deployments"}:                     "apps/v1, Kind=Deployment",
		{Group: "apps", Version: "v9", Resource: "deployments"}:      "",
		{Group: "example.com", Version: "v1", Resource: "widgets"}:   "",
	} {
		if k, ok := d.ByResource(gvr); ok != (want != "") || ok && k.String() != want {
			t.Errorf("%s: %v, %t", gvr, k, ok)
		}
	}
	if k, ok := d.ByAlias("deploy"); !ok || k.Resource != "deployments" {
		t.Errorf("deploy: %v, %t", k, ok)
	}
	if crd := d.CRD(schema.GroupResource{Resource: "pods"}); crd != nil {
		t.Errorf("pods are defined by %v", crd)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	d := directory.New()
	if err := d.Load(t.Context(), scriptedAPI{items: []kinds.Object{widgets("v1beta1", "v1")}}); err != nil {
		t.Fatal(err)
	}
	for _, alias := range []string{"widgets", "Widget", "wd", "widgets.example.com", "widget.v1.example.com"} {
		if k, ok := d.ByAlias(alias); !ok || k.Version != "v1" || !k.Custom {
			t.Errorf("%s: %v, %t", alias, k, ok)
		}
	}
	if k, ok := d.ByAlias("wd.v1beta1.example.com"); !ok || k.Version != "v1beta1" {
		t.Errorf("with its version: %v, %t", k, ok)
	}
	if k, _ := d.ByAlias("po"); k.Kind != "Pod" {
		t.Errorf("po is a %s: built-in kinds come first", k.Kind)
	}
	if k, ok := d.ByGVK(schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}); !ok || k.Resource != "widgets" {
		t.Errorf("by kind: %v, %t", k, ok)
	}
	if k, ok := d.ByResource(schema.GroupVersionResource{Group: "example.com", Resource: "widgets"}); !ok || k.Version != "v1" {
		t.Errorf("without a version: %v, %t", k, ok)
	}
	if _, ok := d.ByAlias("widgets.apps"); ok {
		t.Error("widgets.apps was found")
	}
	if got, want := len(d.All()), len(kinds.ServedByDefault())+2; got != want {
		t.Errorf("%d kinds, want %d", got, want)
	}
	if crd := d.CRD(schema.GroupResource{Group: "example.com", Resource: "widgets"}); crd == nil {
		t.Error("no definition")
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	d := directory.New()
	early := widgets("v1")
	early.Status.Conditions = nil
	changed := d.Changed()
	var seen []int
	play := scriptedAPI{
		items: []kinds.Object{early},
		events: []watch.Event{
			{Type: watch.Modified, Object: widgets("v1")},
			{Type: watch.Modified, Object: widgets("v1", "v2")},
			{Type: watch.Deleted, Object: widgets("v1", "v2")},
			{Type: watch.Added, Object: widgets("v3")},
		},
		step: func() {
			select {
			case <-changed:
			default:
				t.Error("a change that nobody was told of")
			}
			changed = d.Changed()
			seen = append(seen, len(d.All())-len(kinds.ServedByDefault()))
		},
	}
	if err := d.Follow(t.Context(), play); err == nil {
		t.Error("Follow ended without its follower's error")
	}
	want := []int{0, 1, 2, 0, 1}
	if len(seen) != len(want) {
		t.Fatalf("custom kinds %v, want %v", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("custom kinds %v, want %v", seen, want)
		}
	}
}
