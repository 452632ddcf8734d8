package apiserver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// TestTheLargestObjects are as large as the API takes. They can be read in every way that
// there is, and deleted; nothing makes them larger.
func TestTheLargestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		api := s.client("client:me").api
		kind, _ := kinds.ByResource("events")
		events := func(name string) podapi.Target { return podapi.Target{Kind: kind, Namespace: "default", Name: name} }
		live, err := api.Watch(t.Context(), events(""), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Stop()
		names := []string{"a", "b", "c"}
		for _, name := range names {
			obj := &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Finalizers: []string{"a.b/c"}}, Message: "small",
			}
			obj.SetGroupVersionKind(kind.GroupVersionKind)
			if _, err := api.Create(t.Context(), events(""), obj, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		grow := func(name, key string, size int) error {
			patch := fmt.Sprintf(`{%q:%q}`, key, strings.Repeat("x", size))
			_, err := api.Patch(t.Context(), events(name), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
		const room = 1 << 10 // for metadata
		for _, name := range names {
			if err := grow(name, "message", verbs.MaxObject-room); err != nil {
				t.Fatal(err)
			}
			if err := grow(name, "reason", room); !apierrors.IsRequestEntityTooLargeError(err) ||
				!strings.Contains(err.Error(), fmt.Sprintf("an object may have at most %d", verbs.MaxObject)) {
				t.Errorf("made too large: %v", err)
			}
		}
		tooLarge(t, api, events)

		list, err := api.List(t.Context(), events(""), metav1.ListOptions{})
		if err != nil || len(list.Items) != len(names) {
			t.Fatalf("list: %v", err)
		}
		late, err := api.Watch(t.Context(), events(""), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		defer late.Stop()
		for _, name := range names {
			if obj, err := api.Get(t.Context(), events(name), metav1.GetOptions{}); err != nil || obj.GetName() != name {
				t.Errorf("get: %v", err)
			}
			if event := <-late.ResultChan(); event.Type != "ADDED" {
				t.Errorf("watch from the start: %v", event.Type)
			}
			if _, err := api.Delete(t.Context(), events(name), metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete: %v", err)
			}
			free := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := api.Patch(t.Context(), events(name), types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
				t.Errorf("let go: %v", err)
			}
		}
		var seen []string
		for range 4 * len(names) {
			seen = append(seen, string((<-live.ResultChan()).Type))
		}
		want := strings.Repeat("ADDED ", 3) + strings.Repeat("MODIFIED ", 3) + strings.Repeat("MODIFIED DELETED ", 3)
		if got := strings.Join(seen, " ") + " "; got != want {
			t.Errorf("watch: %s, want %s", got, want)
		}
	})
}

// tooLarge tries the other ways to a large object.
func tooLarge(t *testing.T, api *podapi.Client, events func(string) podapi.Target) {
	t.Helper()
	obj := &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"},
		// The body may be as large, but the object gets a UID and a time of birth.
		Message: strings.Repeat("x", verbs.MaxObject-70),
	}
	if _, err := api.Create(t.Context(), events(""), obj, metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("create: %v", err)
	}
	obj.Name = "a"
	if _, err := api.Update(t.Context(), events("a"), obj, metav1.UpdateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("update: %v", err)
	}
}
