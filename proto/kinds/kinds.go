// Package kinds is the table of every kind that podfall serves: its names, its scope,
// its Go type, its encoding and its versions. It decides nothing about them. The table has
// the built-in kinds; [FromCRD] makes rows of the same form for those that users add, and
// their objects pass through the same functions.
//
// Every kind is stored and sent in one version, the preferred one. The other versions
// of a kind are names for the same objects: [ByGVK] finds them, and [Convert] reads
// and writes them. Kinds of different groups share nothing, not even where upstream
// keeps them together: Events of the core group and of events.k8s.io, and what is left
// of the extensions group, are stored apart.
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
	// Singular is what messages print: "pod".
	Singular string
	// ShortNames are what people type: "po".
	ShortNames []string
	// Namespaced is false for cluster-scoped kinds.
	Namespaced bool
	// Categories name groups of kinds: "all".
	Categories []string
	// ListKind is the kind of a list of them: "PodList".
	ListKind string
	// StorageVersion is the version in which the objects are stored and sent.
	StorageVersion string
	// Custom is true for kinds that a CustomResourceDefinition adds, whose objects are
	// *unstructured.Unstructured.
	Custom bool
	// Subresources are those of this version of a custom kind: "status", "scale".
	Subresources []string
	// Selectable are the fields that this version of a custom kind can be selected by,
	// besides metadata: "spec.color".
	Selectable []string
}

// GroupResource is the kind's key in the store and on the bus. Events have one for both of
// their groups.
func (k Kind) GroupResource() schema.GroupResource {
	if !k.Custom && isEvent(k.GroupKind()) {
		return schema.GroupResource{Resource: k.Resource}
	}
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// GroupVersionResource is the kind's path.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// All is every kind in its preferred version, in the order in which names are looked
// up. The caller may change the slice, but not what it points to.
func All() []Kind { return slices.Clone(loadIndex().preferred) }

// Served is every kind in every version, the preferred one first.
func Served() []Kind { return slices.Clone(loadIndex().served) }

// Versions is the kind of a group resource in every version in which it is served.
func Versions(resource schema.GroupResource) []Kind {
	return slices.Clone(loadIndex().versions[resource])
}

// Today is every built-in kind in the versions that an API server of the newest release
// serves unless it is told otherwise: the stable ones. The others are for those who come
// with an old manifest.
func Today() []Kind { return slices.DeleteFunc(Served(), func(k Kind) bool { return !k.IsToday() }) }

// IsToday reports whether a kind is among [Today].
func (k Kind) IsToday() bool {
	return k.Custom || k.Group != "extensions" && !strings.Contains(k.Version, "alpha") && !strings.Contains(k.Version, "beta")
}

// ByResource finds a kind, in its preferred version, by its group resource: "pods",
// "deployments.apps".
func ByResource(groupResource string) (Kind, bool) {
	k, ok := loadIndex().byResource[groupResource]
	return k, ok
}

// ByGVK finds a kind in any version that is served.
func ByGVK(gvk schema.GroupVersionKind) (Kind, bool) {
	k, ok := loadIndex().byGVK[gvk]
	return k, ok
}

// Preferred is k in the version in which its objects are stored.
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

// ByAlias finds a kind by what a person types: its plural, singular, short name or
// Kind, alone ("po", "Pod"), with a group ("deployments.apps"), or with a version and a
// group ("deployments.v1.apps"). Where several groups have the name, the first in the
// table's order is meant.
func ByAlias(what string) (Kind, bool) {
	name, rest, qualified := strings.Cut(what, ".")
	for _, k := range loadIndex().byAlias[strings.ToLower(name)] {
		if !qualified || rest == k.Group || rest == k.Version+"."+k.Group {
			return k, true
		}
	}
	return Kind{}, false
}

// New is an empty object of a kind that is served, its apiVersion and kind set.
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

// NewOf is [New] for a row that need not be in the table: of a custom kind it is an object
// without content.
func NewOf(k Kind) (Object, error) {
	if !k.Custom {
		return New(k.GroupVersionKind)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.GroupVersionKind)
	return obj, nil
}

// index is the table, taken apart for looking up.
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

// add takes one row of the table in, once for each of its versions.
func (ix *index) add(group string, row []string) {
	for i, version := range row[5:] {
		k := Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: row[0]},
			Resource:         row[1],
			Singular:         strings.ToLower(row[0]),
			Namespaced:       row[2] == "namespaced",
			ShortNames:       list(row[3]),
			Categories:       list(row[4]),
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

// list is a cell of the table.
func list(cell string) []string {
	if cell == "-" {
		return nil
	}
	return strings.Split(cell, ",")
}
