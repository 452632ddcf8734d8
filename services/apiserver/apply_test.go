package apiserver_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// apply has a manager apply a manifest.
func (c *client) apply(target podapi.Target, manager, manifest string) (kinds.Object, error) {
	return c.api.Patch(c.t.Context(), target, types.ApplyYAMLPatchType, []byte(manifest), metav1.PatchOptions{FieldManager: manager})
}

// TestApplyCustomResource: a custom resource is applied by its schema, in any of its
// versions, and tracked through its status and over a restart.
func TestApplyCustomResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		c := s.client("client:admin")
		crd := c.define()
		at := widget(t, crd, "v1", "a", "")
		made, err := c.apply(at, "one", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 3}\n")
		if err != nil {
			t.Fatal(err)
		}
		object, ok := made.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("made %T", made)
		}
		if color, _, _ := unstructured.NestedString(object.Object, "spec", "color"); color != "red" || made.GetGeneration() != 1 {
			t.Errorf("made %v", made)
		}
		same, err := c.apply(at, "one", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 3}\n")
		if err != nil || same.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("applied again: %v, %v", same, err)
		}
		if _, err := c.apply(at, "two", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 4}\n"); !apierrors.IsConflict(err) ||
			err.Error() != `Apply failed with 1 conflict: conflict with "one": .spec.size` {
			t.Errorf("got %v, want a conflict", err)
		}
		if _, err := c.apply(at, "two", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {nope: 4}\n"); err == nil ||
			!strings.Contains(err.Error(), ".spec.nope: field not declared in schema") {
			t.Errorf("got %v", err)
		}
		if _, err := c.apply(widget(t, crd, "v2", "a", ""), "two", "apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: a}\nspec: {color: blue}\n"); err != nil {
			t.Error(err)
		}
		if _, err := c.apply(widget(t, crd, "v1", "a", "status"), "controller", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nstatus: {x: 1}\n"); err != nil {
			t.Error(err)
		}
		s.halt()
		s.start()
		now, err := c.api.Get(t.Context(), at, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var managers []string
		for _, e := range now.GetManagedFields() {
			managers = append(managers, e.Manager+" "+e.APIVersion+" "+e.Subresource+" "+e.FieldsV1.GetRawString())
		}
		slices.Sort(managers)
		want := []string{
			`controller example.com/v1 status {"f:status":{"f:x":{}}}`,
			`one example.com/v1  {"f:spec":{"f:size":{}}}`,
			`two example.com/v2  {"f:spec":{"f:color":{}}}`,
		}
		if !slices.Equal(managers, want) {
			t.Errorf("got %q, want %q", managers, want)
		}
	})
}
