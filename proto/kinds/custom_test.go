package kinds_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

func crontabs() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "crontabs", Singular: "crontab", ShortNames: []string{"ct"}, Kind: "CronTab", ListKind: "CronTabList",
		Categories: []string{"all"},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "stable.example.com", Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true, Storage: true},
				{
					Name: "v1", Served: true,
					Subresources: &apiextensionsv1.CustomResourceSubresources{
						Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
						Scale:  &apiextensionsv1.CustomResourceSubresourceScale{},
					},
					SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.cronSpec"}},
				},
				{Name: "v1alpha1"},
			},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			},
		},
	}
}

func crontab() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "stable.example.com/v1", "kind": "CronTab",
		"metadata": map[string]any{"name": "backup", "namespace": "default", "generation": int64(1) << 60},
		"spec":     map[string]any{"replicas": int64(3), "share": 0.5, "cronSpec": "* * * * *", "none": nil},
	}}
}

func TestFromCRD(t *testing.T) {
	t.Parallel()
	rows := kinds.FromCRD(crontabs())
	want := kinds.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "CronTab"},
		Resource:         "crontabs", Singular: "crontab", ShortNames: []string{"ct"}, Namespaced: true,
		Categories: []string{"all"}, ListKind: "CronTabList", StorageVersion: "v1beta1", Custom: true,
		Subresources: []string{"scale", "status"}, Selectable: []string{"spec.cronSpec"},
	}
	beta := want
	beta.Version, beta.Subresources, beta.Selectable = "v1beta1", nil, nil
	if diff := cmp.Diff([]kinds.Kind{want, beta}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := kinds.Preferred(rows[0]); got.GroupVersionKind != beta.GroupVersionKind {
		t.Errorf("stored as %v", got)
	}
	obj, err := kinds.NewOf(rows[0])
	if err != nil || obj.GetObjectKind().GroupVersionKind() != want.GroupVersionKind {
		t.Errorf("NewOf = %v, %v", obj, err)
	}
	early := crontabs()
	early.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse
	if rows := kinds.FromCRD(early); len(rows) > 0 {
		t.Errorf("before it is established: %v", rows)
	}
}

func TestCustomResourcesOnTheWire(t *testing.T) {
	t.Parallel()
	data, err := kinds.Encode(crontab())
	if err != nil {
		t.Fatal(err)
	}
	back, err := kinds.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(crontab(), back); diff != "" {
		t.Errorf("changed on the way (-sent +read):\n%s", diff)
	}
}

func TestCustomResourcesThatAreNone(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"built in":   `{"apiVersion":"v1","kind":"Pod"}`,
		"no group":   `{"apiVersion":"v1","kind":"Widget"}`,
		"no version": `{"kind":"Widget"}`,
		"no kind":    `{"apiVersion":"example.com/v1"}`,
		"half":       `{"apiVersion":"example.com/v1","kind":"Widget"`,
	} {
		if obj, err := kinds.Decode([]byte(data)); err == nil {
			t.Errorf("%s: read as %v", name, obj)
		}
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	if data, err := kinds.Encode(pod); err == nil {
		t.Errorf("a Pod became %s", data)
	}
}

func TestConvertCustom(t *testing.T) {
	t.Parallel()
	obj := crontab()
	beta := schema.GroupVersionKind{Group: "stable.example.com", Version: "v1beta1", Kind: "CronTab"}
	converted, lost, err := kinds.Convert(obj, beta)
	if err != nil || len(lost) > 0 || converted.GetObjectKind().GroupVersionKind() != beta {
		t.Errorf("Convert = %v, %v, %v", converted, lost, err)
	}
	if diff := cmp.Diff(crontab(), obj); diff != "" {
		t.Errorf("Convert changed its argument:\n%s", diff)
	}
}
