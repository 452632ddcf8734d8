package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

const widgets = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
	"spec": {
		"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
	}
}`

// TestCustomKinds defines a kind while the controllers run: its objects own others, and are deleted
// with their namespace.
func TestCustomKinds(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Controllers: []string{"namespace", "garbagecollector"}}, func(r *rig) {
		raw := func(target podapi.Target, body string) kinds.Object {
			obj, err := r.API().CreateRaw(r.Context(), target, kinds.ContentTypeJSON, []byte(body), metav1.CreateOptions{})
			if err != nil {
				r.Fatal(err)
			}
			return obj
		}
		raw(r.target("customresourcedefinitions.apiextensions.k8s.io"), widgets)
		time.Sleep(10 * time.Second)
		r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		widget := podapi.Target{Namespace: "shop", Kind: kinds.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets", Namespaced: true,
		}}
		owner := raw(widget, `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "owner"}}`)
		raw(widget, `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}`)
		r.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "owned", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "example.com/v1", Kind: "Widget", Name: "owner", UID: owner.GetUID()},
			},
		}})
		time.Sleep(10 * time.Second)
		if get[*corev1.ConfigMap](r, "configmaps shop/owned") == nil {
			t.Fatal("an object went whose owner is there")
		}
		ownerTarget := widget
		ownerTarget.Name = "owner"
		if _, err := r.API().Delete(r.Context(), ownerTarget, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.until("it goes with its owner", func() bool { return get[*corev1.ConfigMap](r, "configmaps shop/owned") == nil })

		r.delete("namespaces shop", metav1.DeleteOptions{})
		time.Sleep(30 * time.Second)
		r.wantCondition(corev1.NamespaceContentRemaining, "Some resources are remaining: widgets.example.com has 1 resource instances")
	})
}
