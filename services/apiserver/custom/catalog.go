// Package custom holds what the API knows of CustomResourceDefinitions and of their resources:
// which kinds exist, how their objects are decoded, pruned, defaulted and validated, and what
// happens when a definition is deleted.
//
//	store -> Catalog             catalog.go: the definitions as they are stored
//	          -> Definition      definition.go: one of them, its schemas built at first use
//	               -> resources  decode.go, strategy.go: registry.Strategy for its objects
//	                    schema   schema.go defaults.go metadata.go validate.go rules.go
//	definitions themselves       crd.go, crd_*.go: registry.Strategy for them
//	names.go, cleanup.go         which names are accepted, and what a deletion waits for
//
// The work on schemas is done by apiextensions' own packages, if they have few dependencies:
// structural schemas, pruning, list types, and the CEL types of a schema. Its validation of
// definitions and its validators would bring metrics and gRPC into every process of podfall, 8 ms
// of each start. This package replaces them.
//
// # Order
//
// Once a client has been told that a definition is stored, every later request knows it.
package custom

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Resource is the key of definitions in the store.
const Resource = "customresourcedefinitions.apiextensions.k8s.io"

// Catalog holds the stored definitions. It is safe for concurrent use, and its readers never wait.
// The zero value has none.
type Catalog struct {
	state atomic.Pointer[definitions]
}

// definitions are keyed by name, which is the group resource that they define.
type definitions map[string]*Definition

// Load adds all definitions of a snapshot. Call it before the first commit.
func (c *Catalog) Load(snapshot *store.Snapshot) {
	loaded := definitions{}
	for record := range snapshot.Scan(Resource, "", "") {
		loaded.put(record.Object)
	}
	c.state.Store(&loaded)
}

// OnCommit follows every committed batch; the store's writer calls it, before any caller is
// answered.
func (c *Catalog) OnCommit(events []store.Event) {
	var changed definitions
	for _, event := range events {
		if event.Record.Key.Resource != Resource {
			continue
		}
		if changed == nil {
			changed = maps.Clone(c.all())
		}
		if event.Type == store.Deleted {
			delete(changed, event.Record.Key.Name)
		} else {
			changed.put(event.Record.Object)
		}
	}
	if changed != nil {
		c.state.Store(&changed)
	}
}

func (d definitions) put(obj kinds.Object) {
	if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		d[crd.Name] = newDefinition(crd)
	}
}

func (c *Catalog) all() definitions {
	if c == nil {
		return definitions{}
	}
	if now := c.state.Load(); now != nil {
		return *now
	}
	return definitions{}
}

// Definitions returns all stored definitions, ordered by name. They are shared.
func (c *Catalog) Definitions() []*apiextensionsv1.CustomResourceDefinition {
	all := c.all()
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		crds = append(crds, all[name].CRD)
	}
	return crds
}

// Definition returns the definition of a group resource, established or not; nil if there is none.
func (c *Catalog) Definition(groupResource string) *Definition { return c.all()[groupResource] }

// Kind returns the kind of a group resource in a served version. An empty version means the
// preferred one.
func (c *Catalog) Kind(groupResource, version string) (kinds.Kind, bool) {
	definition := c.Definition(groupResource)
	if definition == nil {
		return kinds.Kind{}, false
	}
	for _, k := range definition.kinds {
		if version == "" || k.Version == version {
			return k, true
		}
	}
	return kinds.Kind{}, false
}

// Versions returns the kind of a group resource in every served version.
func (c *Catalog) Versions(groupResource string) []kinds.Kind {
	definition := c.Definition(groupResource)
	if definition == nil {
		return nil
	}
	return definition.kinds
}

// IsTerminating reports whether the definition of a group resource is being deleted, so that no new
// object may be created.
func (c *Catalog) IsTerminating(groupResource string) bool {
	definition := c.Definition(groupResource)
	return definition != nil && definition.CRD.DeletionTimestamp != nil
}

// Strategy returns the strategy of a custom kind, or of definitions themselves; false for other
// kinds.
func (c *Catalog) Strategy(kind kinds.Kind) (registry.Strategy, bool) {
	switch {
	case kind.Custom:
		return c.resourceStrategy(kind), true
	case kind.GroupResource().String() == Resource:
		return definitionStrategy{kind: kind, catalog: c}, true
	}
	return nil, false
}

// Fields returns what field selectors see of an object of a group resource, in any version.
func (c *Catalog) Fields(groupResource string, obj kinds.Object) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName()}
	if namespace := obj.GetNamespace(); namespace != "" {
		set["metadata.namespace"] = namespace
	}
	definition := c.Definition(groupResource)
	if definition == nil {
		return set
	}
	for _, v := range definition.CRD.Spec.Versions {
		for _, f := range v.SelectableFields {
			set[strings.TrimPrefix(f.JSONPath, ".")] = scalarAt(obj, f.JSONPath)
		}
	}
	return set
}
