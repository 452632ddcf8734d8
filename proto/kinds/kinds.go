// Package kinds is the table of every kind that podfall serves: names, scope, Go type, encoding and
// versions. The table holds the built-in kinds. [FromCRD] returns rows of the same form for custom
// kinds, whose objects use the same functions.
//
// Every kind is stored and sent in one version, the preferred one. The other versions of a kind are
// names for the same objects: [ByGVK] finds them, and [Convert] reads and writes them. Kinds of
// different groups share no objects, even if upstream stores them together: Events of the core
// group and of events.k8s.io, and what is left of the extensions group, are separate.
package kinds

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one row of the table, in one version.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural in paths and subjects: "pods".
	Resource string
	// Singular is the name in messages: "pod".
	Singular string
	// ShortNames are accepted at the command line: "po".
	ShortNames []string
	// Namespaced is false for cluster-scoped kinds.
	Namespaced bool
	// Categories name groups of kinds: "all".
	Categories []string
	// ListKind is the kind of a list: "PodList".
	ListKind string
	// StorageVersion is the version in which objects are stored and sent.
	StorageVersion string
	// Custom is set for kinds of a CustomResourceDefinition, whose objects are
	// *unstructured.Unstructured.
	Custom bool
	// Subresources are those of this version of a custom kind: "status", "scale".
	Subresources []string
	// Selectable are the field selectors of this version of a custom kind, besides metadata:
	// "spec.color".
	Selectable []string
}

// GroupResource returns the kind's key in the store and on the bus. Both groups of Event share one.
func (k Kind) GroupResource() schema.GroupResource {
	if !k.Custom && isEvent(k.GroupKind()) {
		return schema.GroupResource{Resource: k.Resource}
	}
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// GroupVersionResource returns the kind's path.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// All returns every kind in its preferred version, in lookup order. The caller may change the
// slice, but not what it refers to.
func All() []Kind { return slices.Clone(loadIndex().preferred) }

// Served returns every kind in every version, the preferred version first.
func Served() []Kind { return slices.Clone(loadIndex().served) }

// Versions returns all served versions of a group resource.
func Versions(resource schema.GroupResource) []Kind {
	return slices.Clone(loadIndex().versions[resource])
}

// ServedByDefault returns every built-in kind in the versions that an API server of the newest
// release serves by default: the stable ones. The other versions exist for users with old
// manifests.
func ServedByDefault() []Kind {
	return slices.DeleteFunc(Served(), func(k Kind) bool { return !k.IsServedByDefault() })
}

// IsServedByDefault reports whether a kind is in [ServedByDefault].
func (k Kind) IsServedByDefault() bool {
	return k.Custom || k.Group != "extensions" && !strings.Contains(k.Version, "alpha") && !strings.Contains(k.Version, "beta")
}

// ByResource finds a kind, in its preferred version, by group resource: "pods", "deployments.apps".
func ByResource(groupResource string) (Kind, bool) {
	k, ok := loadIndex().byResource[groupResource]
	return k, ok
}

// ByGVK finds a kind in any served version.
func ByGVK(gvk schema.GroupVersionKind) (Kind, bool) {
	k, ok := loadIndex().byGVK[gvk]
	return k, ok
}

// Preferred returns k in its storage version.
func Preferred(k Kind) Kind {
	if k.Custom {
		k.Version = k.StorageVersion
		return k
	}
	if preferred, ok := ByResource(k.GroupResource().String()); ok {
		return preferred
	}
	return k
}

// ByAlias finds a kind by command-line input: its plural, singular, short name or Kind, alone
// ("po", "Pod"), with a group ("deployments.apps"), or with a version and a group
// ("deployments.v1.apps"). If several groups have the name, the first in the table wins.
func ByAlias(what string) (Kind, bool) {
	name, rest, qualified := strings.Cut(what, ".")
	for _, k := range loadIndex().byAlias[strings.ToLower(name)] {
		if !qualified || rest == k.Group || rest == k.Version+"."+k.Group {
			return k, true
		}
	}
	return Kind{}, false
}

// New returns an empty object of a served kind, with apiVersion and kind set.
func New(gvk schema.GroupVersionKind) (Object, error) {
	if _, ok := ByGVK(gvk); !ok {
		return nil, fmt.Errorf("new %s: podfall does not serve this kind", gvk)
	}
	made, err := Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("new %s: %w", gvk, err)
	}
	obj, ok := made.(Object)
	if !ok {
		return nil, fmt.Errorf("new %s: %T has no metadata", gvk, made)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// NewOf is [New] for a row that may be missing in the table. For a custom kind it returns an object
// without content.
func NewOf(k Kind) (Object, error) {
	if !k.Custom {
		return New(k.GroupVersionKind)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.GroupVersionKind)
	return obj, nil
}

// index holds the table's lookup maps.
type index struct {
	preferred  []Kind
	served     []Kind
	byResource map[string]Kind
	versions   map[schema.GroupResource][]Kind
	byGVK      map[schema.GroupVersionKind]Kind
	byAlias    map[string][]Kind
}

//nolint:gochecknoglobals // built once, on first use; nothing changes it
var loadIndex = sync.OnceValue(func() *index {
	ix := &index{
		byResource: map[string]Kind{},
		versions:   map[schema.GroupResource][]Kind{},
		byGVK:      map[schema.GroupVersionKind]Kind{},
		byAlias:    map[string][]Kind{},
	}
	group := ""
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "group":
			group = strings.TrimPrefix(fields[1], "core")
		default:
			ix.add(group, fields)
		}
	}
	return ix
})

// add adds one row of the table, once for each version.
func (ix *index) add(group string, row []string) {
	for i, version := range row[5:] {
		k := Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: row[0]},
			Resource:         row[1],
			Singular:         strings.ToLower(row[0]),
			Namespaced:       row[2] == "namespaced",
			ShortNames:       splitCell(row[3]),
			Categories:       splitCell(row[4]),
			ListKind:         row[0] + "List",
			StorageVersion:   row[5],
		}
		ix.served = append(ix.served, k)
		ix.versions[k.GroupResource()] = append(ix.versions[k.GroupResource()], k)
		ix.byGVK[k.GroupVersionKind] = k
		if i == 0 {
			ix.preferred = append(ix.preferred, k)
			ix.byResource[schema.GroupResource{Group: k.Group, Resource: k.Resource}.String()] = k
		}
		names := append([]string{k.Resource, k.Singular}, k.ShortNames...)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			ix.byAlias[name] = append(ix.byAlias[name], k)
		}
	}
}

// splitCell returns the values in a cell of the table.
func splitCell(cell string) []string {
	if cell == "-" {
		return nil
	}
	return strings.Split(cell, ",")
}
