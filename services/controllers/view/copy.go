// Package view keeps local copies of the cluster for the controllers of one process.
// A [Copy] holds all objects of one kind, as the API's watch delivers them, with
// indexes; the controllers of the process share one of each kind through a [Set].
//
// # Order
//
// A handler is told of every change of its kind, one at a time and in revision order,
// after the copy has taken it in. An object that was deleted and made again under its
// name is told as two changes. What happened between two states that the copy saw is
// told to nobody: a controller decides by what is, not by what happened.
//
// # Sharing
//
// Objects of a copy belong to all who read it: change a DeepCopy.
//
// # Tests
//
// A [Valve] holds changes up, so that tests can show controllers stale, intermediate and
// missed views.
package view

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Key is an object's place in its kind: namespace and name.
type Key = types.NamespacedName

// KeyOf is the key of an object.
func KeyOf(obj metav1.Object) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Revision is an object's resourceVersion as a number; 0 when it has none.
func Revision(obj metav1.Object) int64 {
	n, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return n
}

// Copy is a local copy of one kind. It is safe for concurrent use.
type Copy[T kinds.Object] struct {
	kind   kinds.Kind
	valve  *gate
	filled chan struct{}
	begun  sync.Once

	mu       sync.RWMutex
	objects  map[Key]T
	indexes  map[string]*index
	derive   map[string]func(T) []string
	handlers []func(old, now T)
}

func newCopy[T kinds.Object](kind kinds.Kind) *Copy[T] {
	c := &Copy[T]{
		kind: kind, filled: make(chan struct{}),
		objects: map[Key]T{}, indexes: map[string]*index{}, derive: map[string]func(T) []string{},
	}
	c.Index(byNamespace, func(obj T) []string { return []string{obj.GetNamespace()} })
	c.Index(byOwner, func(obj T) []string {
		if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
			return []string{string(owner.UID)}
		}
		return []string{orphanIn + obj.GetNamespace()}
	})
	return c
}

// Kind is the kind that the copy is of.
func (c *Copy[T]) Kind() kinds.Kind { return c.kind }

// On tells handler of every change from now on; of a new object old is nil, of one that
// has gone now is nil. It must not block: let it add a key to a queue. Call it before the
// set runs.
func (c *Copy[T]) On(handler func(old, now T)) { c.handlers = append(c.handlers, handler) }

// Index keeps the objects by what values says of them, for [Copy.By]. Call it before the
// set runs; the same name twice is one index.
func (c *Copy[T]) Index(name string, values func(T) []string) {
	if _, known := c.indexes[name]; known {
		return
	}
	c.indexes[name], c.derive[name] = newIndex(), values
}

// Get finds one object.
func (c *Copy[T]) Get(key Key) (T, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	obj, ok := c.objects[key]
	return obj, ok
}

// All is every object, by namespace and name.
func (c *Copy[T]) All() []T {
	c.mu.RLock()
	all := make([]T, 0, len(c.objects))
	for _, obj := range c.objects {
		all = append(all, obj)
	}
	c.mu.RUnlock()
	return sorted(all)
}

// In is every object of a namespace, by name.
func (c *Copy[T]) In(namespace string) []T { return c.By(byNamespace, namespace) }

// Controlled is every object whose controller has this UID, by namespace and name.
func (c *Copy[T]) Controlled(owner types.UID) []T { return c.By(byOwner, string(owner)) }

// Orphans is every object of a namespace that has no controller, by name.
func (c *Copy[T]) Orphans(namespace string) []T { return c.By(byOwner, orphanIn+namespace) }

// By is every object of which an index has this value, by namespace and name.
func (c *Copy[T]) By(name, value string) []T {
	c.mu.RLock()
	keys := c.indexes[name].keys[value]
	found := make([]T, 0, len(keys))
	for key := range keys {
		found = append(found, c.objects[key])
	}
	c.mu.RUnlock()
	return sorted(found)
}

// Filled is closed once the copy holds what a first list returned.
func (c *Copy[T]) Filled() <-chan struct{} { return c.filled }

func sorted[T kinds.Object](objects []T) []T {
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// follow keeps the copy until ctx ends.
func (c *Copy[T]) follow(ctx context.Context, api Follower) error {
	return api.Follow(ctx, podapi.Target{Kind: c.kind}, metav1.ListOptions{}, c.valve.before(c))
}

// Replace implements podapi.Sink.
func (c *Copy[T]) Replace(items []kinds.Object, _ string) {
	fresh := make(map[Key]T, len(items))
	for _, item := range items {
		if obj, ok := item.(T); ok {
			fresh[KeyOf(obj)] = obj
		}
	}
	for _, old := range c.All() {
		if _, stays := fresh[KeyOf(old)]; !stays {
			c.remove(old)
		}
	}
	for _, item := range items {
		if obj, ok := item.(T); ok {
			c.set(obj)
		}
	}
	c.begun.Do(func() { close(c.filled) })
}

// Apply implements podapi.Sink.
func (c *Copy[T]) Apply(event watch.Event) {
	obj, ok := event.Object.(T)
	if !ok {
		return
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		c.set(obj)
	case watch.Deleted:
		c.remove(obj)
	case watch.Bookmark, watch.Error:
	}
}

// set takes in an object as it now is.
func (c *Copy[T]) set(obj T) {
	key := KeyOf(obj)
	old, known := c.Get(key)
	if known && old.GetUID() != obj.GetUID() {
		c.remove(old)
		known = false
	}
	if known && old.GetResourceVersion() == obj.GetResourceVersion() {
		return
	}
	c.mu.Lock()
	for name, ix := range c.indexes {
		if known {
			ix.drop(key, c.derive[name](old))
		}
		ix.put(key, c.derive[name](obj))
	}
	c.objects[key] = obj
	c.mu.Unlock()
	if !known {
		var none T
		old = none
	}
	c.tell(old, obj)
}

// remove takes in that an object has gone; last is how it was last seen.
func (c *Copy[T]) remove(last T) {
	key := KeyOf(last)
	c.mu.Lock()
	old, known := c.objects[key]
	if known {
		delete(c.objects, key)
		for name, ix := range c.indexes {
			ix.drop(key, c.derive[name](old))
		}
	}
	c.mu.Unlock()
	if known {
		var none T
		c.tell(last, none)
	}
}

func (c *Copy[T]) tell(old, now T) {
	for _, handler := range c.handlers {
		handler(old, now)
	}
}

// Either is the object that a handler was told of: as it is, or as it was.
func Either[T any](old, now *T) *T {
	if now != nil {
		return now
	}
	return old
}
