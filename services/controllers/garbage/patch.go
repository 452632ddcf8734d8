package garbage

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReferencesPatch returns the merge patch that sets the references of this version of an item.
func ReferencesPatch(item Item, refs []metav1.OwnerReference) ([]byte, error) {
	return metadataPatch(item, "ownerReferences", refs, len(refs))
}

// FinalizerPatch returns the merge patch that removes a finalizer from this version of an item.
func FinalizerPatch(item Item, finalizer string) ([]byte, error) {
	rest := slices.DeleteFunc(slices.Clone(item.Finalizers), func(f string) bool { return f == finalizer })
	return metadataPatch(item, "finalizers", rest, len(rest))
}

func metadataPatch(item Item, field string, value any, count int) ([]byte, error) {
	if count == 0 {
		value = nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": item.Version, "uid": item.UID, field: value,
	}})
}
