// Package directory holds every kind that the cluster currently serves: the built-in kinds in their
// stable versions, which never change, and the kinds of CustomResourceDefinitions. Without
// [Directory.Follow] or [Directory.Load], a directory holds the built-in kinds only.
//
// # Order
//
// Built-in kinds come before custom ones, and custom ones in the order of group and plural. Within
// a kind, the version that clients prefer comes first. A definition counts once it is established.
//
// # Blocking
//
// Reads take no lock and never wait.
package directory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Lister lists definitions once; a *podapi.Client is one.
type Lister interface {
	List(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
}

// Follower maintains a copy of definitions; a *podapi.Client is one.
type Follower interface {
	Follow(ctx context.Context, t podapi.Target, opts metav1.ListOptions, sink podapi.Sink) error
}

// Directory is safe for concurrent use. Its results are shared and must not be changed.
type Directory struct {
	current atomic.Pointer[contents]
	filled  chan struct{}
	// markFilled closes filled.
	markFilled func()
}

// New returns a directory of the built-in kinds.
func New() *Directory {
	filled := make(chan struct{})
	d := &Directory{filled: filled, markFilled: sync.OnceFunc(func() { close(filled) })}
	d.current.Store(newContents(nil))
	return d
}

// contents is the directory between two changes; it is immutable.
type contents struct {
	definitions map[string]*apiextensionsv1.CustomResourceDefinition // by name: plural.group
	custom      []kinds.Kind
	byGVR       map[schema.GroupVersionResource]kinds.Kind
	byGVK       map[schema.GroupVersionKind]kinds.Kind
	// superseded is closed when newer contents exist.
	superseded chan struct{}
}

// Load reads the definitions once.
func (d *Directory) Load(ctx context.Context, api Lister) error {
	page, err := api.List(ctx, podapi.Target{Kind: crdKind()}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("load the directory of kinds: %w", err)
	}
	(*sink)(d).Replace(page.Items, page.ResourceVersion)
	return nil
}

// Follow keeps the directory up to date until ctx ends, and returns the error of ctx. Only one
// goroutine may call it.
func (d *Directory) Follow(ctx context.Context, api Follower) error {
	return api.Follow(ctx, podapi.Target{Kind: crdKind()}, metav1.ListOptions{}, (*sink)(d))
}

func crdKind() kinds.Kind {
	kind, _ := kinds.ByResource("customresourcedefinitions.apiextensions.k8s.io")
	return kind
}

// Filled is closed once the definitions were read. Before that, the directory may lack custom kinds
// that are served.
func (d *Directory) Filled() <-chan struct{} { return d.filled }

// Changed is closed at the next change. Call it before reading, so that no change is missed.
func (d *Directory) Changed() <-chan struct{} { return d.current.Load().superseded }

// All returns every kind in every served version.
func (d *Directory) All() []kinds.Kind {
	return append(kinds.ServedByDefault(), d.current.Load().custom...)
}

// ByResource finds a kind by its path. An empty version selects the preferred one.
func (d *Directory) ByResource(gvr schema.GroupVersionResource) (kinds.Kind, bool) {
	if preferred, ok := kinds.ByResource(gvr.GroupResource().String()); ok {
		if gvr.Version == "" || gvr.Version == preferred.Version {
			return preferred, preferred.IsServedByDefault()
		}
		k, ok := kinds.ByGVK(schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version, Kind: preferred.Kind})
		return k, ok && k.IsServedByDefault()
	}
	k, ok := d.current.Load().byGVR[gvr]
	return k, ok
}

// ByGVK finds a kind in any served version.
func (d *Directory) ByGVK(gvk schema.GroupVersionKind) (kinds.Kind, bool) {
	if k, ok := kinds.ByGVK(gvk); ok {
		return k, k.IsServedByDefault()
	}
	k, ok := d.current.Load().byGVK[gvk]
	return k, ok
}

// ByAlias finds a kind by command-line input, as [kinds.ByAlias] does.
func (d *Directory) ByAlias(what string) (kinds.Kind, bool) {
	if k, ok := kinds.ByAlias(what); ok {
		return k, true
	}
	name, rest, qualified := strings.Cut(strings.ToLower(what), ".")
	for _, k := range d.current.Load().custom {
		named := name == k.Resource || name == k.Singular || name == strings.ToLower(k.Kind) || slices.Contains(k.ShortNames, name)
		if named && (!qualified || rest == k.Group || rest == k.Version+"."+k.Group) {
			return k, true
		}
	}
	return kinds.Kind{}, false
}

// CRD returns the definition of a custom kind; nil if there is none or it is not established.
func (d *Directory) CRD(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	crd := d.current.Load().definitions[gr.String()]
	if crd == nil || len(kinds.FromCRD(crd)) == 0 {
		return nil
	}
	return crd
}

// newContents builds the lookup maps.
func newContents(definitions map[string]*apiextensionsv1.CustomResourceDefinition) *contents {
	c := &contents{
		definitions: definitions,
		byGVR:       map[schema.GroupVersionResource]kinds.Kind{},
		byGVK:       map[schema.GroupVersionKind]kinds.Kind{},
		superseded:  make(chan struct{}),
	}
	byPath := func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Or(cmp.Compare(a.Spec.Group, b.Spec.Group), cmp.Compare(a.Name, b.Name))
	}
	for _, crd := range slices.SortedFunc(maps.Values(definitions), byPath) {
		for i, k := range kinds.FromCRD(crd) {
			c.custom = append(c.custom, k)
			c.byGVR[k.GroupVersionResource()] = k
			c.byGVK[k.GroupVersionKind] = k
			if i == 0 {
				c.byGVR[k.GroupResource().WithVersion("")] = k
			}
		}
	}
	return c
}

// sink is the follower's view of a directory; one goroutine at a time uses it.
type sink Directory

func (s *sink) Replace(items []kinds.Object, _ string) {
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, item := range items {
		if crd, ok := item.(*apiextensionsv1.CustomResourceDefinition); ok {
			definitions[crd.Name] = crd
		}
	}
	s.publish(definitions)
	s.markFilled()
}

func (s *sink) Apply(event watch.Event) {
	crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	definitions := maps.Clone(s.current.Load().definitions)
	if event.Type == watch.Deleted {
		delete(definitions, crd.Name)
	} else {
		if definitions == nil {
			definitions = map[string]*apiextensionsv1.CustomResourceDefinition{}
		}
		definitions[crd.Name] = crd
	}
	s.publish(definitions)
}

func (s *sink) publish(definitions map[string]*apiextensionsv1.CustomResourceDefinition) {
	before := s.current.Swap(newContents(definitions))
	close(before.superseded)
}
