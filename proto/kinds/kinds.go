// Package kinds is the table of every kind that podfall serves: its names, its scope,
// its Go type and its encoding. It decides nothing about them.
package kinds

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one row of the table.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural in paths and subjects: "pods".
	Resource string
	// Singular is what messages print: "pod".
	Singular string
	// ShortNames are what people type: "po".
	ShortNames []string
	// Namespaced is false for cluster-scoped kinds.
	Namespaced bool
	// Categories name groups of kinds: "all".
	Categories []string
}

// GroupResource is the kind's key in the store and on the bus.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// GroupVersionResource is the kind's path.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}
