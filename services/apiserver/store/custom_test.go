package store_test

import (
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/services/apiserver/store"
)

// TestCustomResourceIsNotSharedWithItsTombstone: a custom resource has its resourceVersion in
// a map, and readers of the last version keep it.
func TestCustomResourceIsNotSharedWithItsTombstone(t *testing.T) {
	t.Parallel()
	s := open(t, store.Config{Path: filepath.Join(t.TempDir(), "db"), NoSync: true})
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"},
	}}
	key := store.Key{Resource: "widgets.example.com", Namespace: "default", Name: "w"}
	made, err := s.Commit(t.Context(), store.Commit{Writes: []store.Write{{Key: key, Expect: store.Absent, Object: obj}}})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Snapshot().Get(key)
	version := last.Object.GetResourceVersion()
	gone, err := s.Commit(t.Context(), store.Commit{Writes: []store.Write{{Key: key, Expect: made[0].Revision}}})
	if err != nil {
		t.Fatal(err)
	}
	if now := last.Object.GetResourceVersion(); now != version {
		t.Errorf("the version before the deletion calls itself %s, was %s", now, version)
	}
	if of := gone[0].Record.Object.GetResourceVersion(); of == version {
		t.Errorf("the deletion has the version %s of what was before it", of)
	}
}
