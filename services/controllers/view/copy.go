// Package view keeps local copies of the cluster for the controllers of one process. A [Copy] holds
// all objects of one kind, as the API's watch delivers them, with indexes. The controllers of the
// process share one copy per kind through a [Set].
//
// # Order
//
// A handler is called with every change of its kind, one at a time and in revision order, after the
// copy contains the change. An object that was deleted and created again under its name is two
// changes. Changes between two states that the copy saw are not reported: a controller decides by
// the present state.
//
// # Sharing
//
// All readers share the objects of a copy: change a DeepCopy.
//
// # Tests
//
// An [EventGate] holds changes back, so that tests can show controllers stale, intermediate and
// incomplete views.
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

// Key is an object's namespace and name.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(obj metav1.Object) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Revision returns an object's resourceVersion as a number; 0 if it has none.
func Revision(obj metav1.Object) int64 {
	n, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return n
}

// Copy is a local copy of one kind. It is safe for concurrent use.
type Copy[T kinds.Object] struct {
	kind     kinds.Kind
	gate     *gate
	filled   chan struct{}
	fillOnce sync.Once

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

// Kind returns the kind of the copy.
func (c *Copy[T]) Kind() kinds.Kind { return c.kind }

// OnChange calls handler for every later change. old is nil for a new object, now is nil for a
// deleted one. handler must not block; it should add a key to a queue. Call OnChange before the set
// runs.
func (c *Copy[T]) OnChange(handler func(old, now T)) { c.handlers = append(c.handlers, handler) }

// Index keeps an index of the objects by values, for [Copy.ByIndex]. Call it before the set runs.
// The same name twice is one index.
func (c *Copy[T]) Index(name string, values func(T) []string) {
	if _, known := c.indexes[name]; known {
		return
	}
	c.indexes[name], c.derive[name] = newIndex(), values
}

// Get returns one object.
func (c *Copy[T]) Get(key Key) (T, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	obj, ok := c.objects[key]
	return obj, ok
}

// All returns every object, by namespace and name.
func (c *Copy[T]) All() []T {
	c.mu.RLock()
	all := make([]T, 0, len(c.objects))
	for _, obj := range c.objects {
		all = append(all, obj)
	}
	c.mu.RUnlock()
	return sorted(all)
}

// InNamespace returns every object of a namespace, by name.
func (c *Copy[T]) InNamespace(namespace string) []T { return c.ByIndex(byNamespace, namespace) }

// ControlledBy returns every object whose controller has this UID, by namespace and name.
func (c *Copy[T]) ControlledBy(owner types.UID) []T { return c.ByIndex(byOwner, string(owner)) }

// Orphans returns every object of a namespace without a controller, by name.
func (c *Copy[T]) Orphans(namespace string) []T { return c.ByIndex(byOwner, orphanIn+namespace) }

// ByIndex returns every object with this value in an index, by namespace and name.
func (c *Copy[T]) ByIndex(name, value string) []T {
	c.mu.RLock()
	keys := c.indexes[name].keys[value]
	found := make([]T, 0, len(keys))
	for key := range keys {
		found = append(found, c.objects[key])
	}
	c.mu.RUnlock()
	return sorted(found)
}

// Filled returns a channel that is closed once the copy holds the first list.
func (c *Copy[T]) Filled() <-chan struct{} { return c.filled }

func sorted[T kinds.Object](objects []T) []T {
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// follow keeps the copy up to date until ctx ends.
func (c *Copy[T]) follow(ctx context.Context, api Follower) error {
	return api.Follow(ctx, podapi.Target{Kind: c.kind}, metav1.ListOptions{}, c.gate.wrap(c))
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
	c.fillOnce.Do(func() { close(c.filled) })
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

// set stores a new version of an object.
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
	c.notify(old, obj)
}

// remove deletes an object; last is its last known version.
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
		c.notify(last, none)
	}
}

func (c *Copy[T]) notify(old, now T) {
	for _, handler := range c.handlers {
		handler(old, now)
	}
}

// Either returns now, or old if now is nil.
func Either[T any](old, now *T) *T {
	if now != nil {
		return now
	}
	return old
}
