package apiserver_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - &version
    name: v1
    served: true
    storage: true
    subresources: {status: {}}
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, default: red}
              size: {type: integer, maximum: 9}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - <<: *version
    name: v2
    storage: false
`

func definitions(name string) podapi.Target {
	kind, _ := kinds.ByResource("customresourcedefinitions.apiextensions.k8s.io")
	return podapi.Target{Kind: kind, Name: name}
}

func (c *client) define() *apiextensionsv1.CustomResourceDefinition {
	c.t.Helper()
	data, err := yaml.YAMLToJSON([]byte(widgets))
	if err != nil {
		c.t.Fatal(err)
	}
	obj, err := c.api.CreateRaw(c.t.Context(), definitions(""), kinds.ContentTypeJSON, data, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		c.t.Fatal(err)
	}
	return as[*apiextensionsv1.CustomResourceDefinition](c.t, obj)
}

// as is obj, which must be a T.
func as[T any](t testing.TB, obj any) T {
	t.Helper()
	typed, ok := obj.(T)
	if !ok {
		t.Fatalf("%T is no %T", obj, typed)
	}
	return typed
}

// widget is a place in the API for widgets, in a version.
func widget(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition, version, name, sub string) podapi.Target {
	t.Helper()
	for _, kind := range kinds.FromCRD(crd) {
		if kind.Version == version {
			return podapi.Target{Kind: kind, Namespace: "default", Name: name, Subresource: sub}
		}
	}
	t.Fatalf("%s is not served: %v", version, crd.Status)
	return podapi.Target{}
}

func newWidget(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec,
	}}
}

func TestCustomResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		c := s.client("client:admin")
		crd := c.define()
		events, err := c.api.Watch(t.Context(), widget(t, crd, "v2", "", ""), metav1.ListOptions{FieldSelector: "spec.color=red"})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		created, err := c.api.Create(t.Context(), widget(t, crd, "v2", "", ""), newWidget("v2", "a", map[string]any{"size": int64(1), "nope": true}), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj := as[*unstructured.Unstructured](t, created)
		color, _, _ := unstructured.NestedString(obj.Object, "spec", "color")
		if obj.GetAPIVersion() != "example.com/v2" || color != "red" || obj.GetGeneration() != 1 || obj.GetUID() == "" || obj.GetResourceVersion() == "" {
			t.Errorf("created %v", obj)
		}
		if _, extra, _ := unstructured.NestedBool(obj.Object, "spec", "nope"); extra {
			t.Error("an unknown field was kept")
		}
		_, err = c.api.Create(t.Context(), widget(t, crd, "v1", "", ""), newWidget("v1", "b", map[string]any{"size": int64(10)}), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9`) {
			t.Errorf("too large: %v", err)
		}
		patched, err := c.api.Patch(t.Context(), widget(t, crd, "v1", "a", ""), types.MergePatchType, []byte(`{"spec":{"color":"blue"},"status":{"x":1}}`), metav1.PatchOptions{})
		if err != nil || patched.GetGeneration() != 2 || as[*unstructured.Unstructured](t, patched).Object["status"] != nil {
			t.Errorf("patched: %v, %v", patched, err)
		}
		if _, err := c.api.Patch(t.Context(), widget(t, crd, "v1", "a", "status"), types.MergePatchType, []byte(`{"status":{"x":1}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} { // it is red no longer
			event := <-events.ResultChan()
			if got, ok := event.Object.(*unstructured.Unstructured); !ok || event.Type != want || got.GetAPIVersion() != "example.com/v2" {
				t.Errorf("event %v, want %s", event, want)
			}
		}
		if _, err := c.api.Update(t.Context(), widget(t, crd, "v1", "a", ""), newWidget("v1", "a", nil), metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("an update without a version: %v", err)
		}

		s.halt()
		s.start() // what is stored outlives the process
		again, err := c.api.Get(t.Context(), widget(t, crd, "v2", "a", ""), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status, _, _ := unstructured.NestedInt64(as[*unstructured.Unstructured](t, again).Object, "status", "x")
		if again.GetUID() != obj.GetUID() || status != 1 || as[*unstructured.Unstructured](t, again).GetAPIVersion() != "example.com/v2" {
			t.Errorf("after a restart: %v", again)
		}
		page, err := c.api.List(t.Context(), widget(t, crd, "v1", "", ""), metav1.ListOptions{FieldSelector: "spec.color=blue"})
		if err != nil || len(page.Items) != 1 {
			t.Errorf("blue ones: %v, %v", page, err)
		}
		for _, resource := range []string{"gadgets.example.com", "widgets.other.com"} {
			subject := proto.APISubject{Identity: "client:x", Verb: proto.VerbGet, Resource: resource, Namespace: "default", Name: "a"}
			_, status := s.raw(s.dial("client:x"), subject.String(), marshal(&proto.Request{Version: proto.Version, Operation: "o"}))
			if status == nil || status.Code != 404 {
				t.Errorf("%s: %v", resource, status)
			}
		}
		if _, err := c.api.Delete(t.Context(), widget(t, crd, "v1", "a", ""), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := c.api.Get(t.Context(), widget(t, crd, "v1", "a", ""), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("deleted, but %v", err)
		}
	})
}

// expectAllAsked wants each commit to have been asked for by who is written down, also those of
// the apiserver's own (A2).
func expectAllAsked(t *testing.T, life []history.Event) {
	t.Helper()
	asked, own := map[string]bool{"bootstrap": true}, 0
	for _, e := range life {
		switch fact := e.Fact.(type) {
		case history.OpCall:
			asked[e.Cause] = true
			if fact.Identity == string(proto.APIServer) {
				own++
			}
		case history.Commit:
			if !asked[e.Cause] {
				t.Errorf("nobody had asked for the commit of %s %s", fact.Resource, fact.Key)
			}
		}
	}
	if own == 0 {
		t.Error("the apiserver has asked for nothing")
	}
}

func TestDefinitionGoesAfterItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder, life := recording(t)
		c := newHarness(t, func(cfg *apiserver.Config) { cfg.History = recorder }).client("client:admin")
		defer func() { expectAllAsked(t, life()) }()
		crd := c.define()
		for _, name := range []string{"free", "held"} {
			obj := newWidget("v1", name, nil)
			if name == "held" {
				obj.SetFinalizers([]string{"example.com/hold"})
			}
			if _, err := c.api.Create(t.Context(), widget(t, crd, "v1", "", ""), obj, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		page, err := c.api.List(t.Context(), widget(t, crd, "v1", "", ""), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events, err := c.api.Watch(t.Context(), widget(t, crd, "v1", "", ""), metav1.ListOptions{ResourceVersion: page.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		answer, err := c.api.Delete(t.Context(), definitions(crd.Name), metav1.DeleteOptions{})
		marked, ok := answer.(*apiextensionsv1.CustomResourceDefinition)
		if err != nil || !ok || marked.DeletionTimestamp == nil || len(marked.Finalizers) != 1 {
			t.Fatalf("delete: %v, %v", answer, err)
		}
		time.Sleep(time.Second)
		obj, err := c.api.Get(t.Context(), definitions(crd.Name), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		terminating := ""
		for _, condition := range as[*apiextensionsv1.CustomResourceDefinition](t, obj).Status.Conditions {
			if condition.Type == apiextensionsv1.Terminating {
				terminating = string(condition.Status) + " " + condition.Reason
			}
		}
		if terminating != "True InstanceDeletionInProgress" {
			t.Errorf("terminating: %s", terminating)
		}
		if _, err := c.api.Create(t.Context(), widget(t, crd, "v1", "", ""), newWidget("v1", "late", nil), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a late widget: %v", err)
		}
		if _, err := c.api.Patch(t.Context(), widget(t, crd, "v1", "held", ""), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		gone := time.Now()
		time.Sleep(time.Second)
		if obj, err := c.api.Get(t.Context(), definitions(crd.Name), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the definition is still there: %v, %v", obj, err)
		}
		if _, err := c.api.List(t.Context(), widget(t, crd, "v1", "", ""), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a list of what is defined no longer: %v", err)
		}
		var seen []string
		for event := range events.ResultChan() {
			text := string(event.Type)
			if status, ok := event.Object.(*metav1.Status); ok {
				text += " " + string(status.Reason)
			} else {
				text += " " + as[kinds.Object](t, event.Object).GetName()
			}
			seen = append(seen, text)
		}
		if got, want := strings.Join(seen, ", "), "DELETED free, MODIFIED held, DELETED held, ERROR NotFound"; got != want {
			t.Errorf("the watch saw %s, want %s", got, want)
		}
		if took := time.Since(gone); took > 10*time.Second {
			t.Errorf("the watch ended after %v", took)
		}
	})
}
