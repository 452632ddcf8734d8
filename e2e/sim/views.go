package sim

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
)

// name is an object's among those of its kind.
type name struct{ Namespace, Name string }

func nameOf(obj kinds.Object) name { return name{obj.GetNamespace(), obj.GetName()} }

func (n name) String() string { return n.Namespace + "/" + n.Name }

func (n name) compare(other name) int {
	return cmp.Or(cmp.Compare(n.Namespace, other.Namespace), cmp.Compare(n.Name, other.Name))
}

// copyOf is a process's copy of all objects of a kind: the Sink of a [Follower].
type copyOf[T kinds.Object] struct {
	objects map[name]T
	// changed is told of each change; of a new object old is none, of one that is gone now is.
	changed func(old, now T)
	synced  bool
	sorted  []T // nil when it has to be made again
}

func newCopy[T kinds.Object](changed func(old, now T)) *copyOf[T] {
	return &copyOf[T]{objects: map[name]T{}, changed: changed}
}

// Replace implements podapi.Sink.
func (c *copyOf[T]) Replace(items []kinds.Object, _ string) {
	there := map[name]bool{}
	for _, item := range items {
		there[nameOf(item)] = true
	}
	for _, old := range slices.Clone(c.all()) {
		if !there[nameOf(old)] {
			c.remove(nameOf(old))
		}
	}
	for _, item := range items {
		if obj, ok := item.(T); ok {
			c.set(obj)
		}
	}
	c.synced = true
}

// Apply implements podapi.Sink.
func (c *copyOf[T]) Apply(event watch.Event) {
	obj, ok := event.Object.(T)
	if !ok {
		return
	}
	if event.Type == watch.Deleted {
		c.remove(nameOf(obj))
		return
	}
	c.set(obj)
}

func (c *copyOf[T]) set(obj T) {
	key := nameOf(obj)
	old, known := c.objects[key]
	if known && old.GetUID() != obj.GetUID() {
		c.remove(key)
		old, known = *new(T), false
	}
	if !known || c.sorted == nil {
		c.sorted = nil
	} else if i, found := slices.BinarySearchFunc(c.sorted, key, func(a T, b name) int { return nameOf(a).compare(b) }); found {
		c.sorted[i] = obj
	}
	c.objects[key] = obj
	c.changed(old, obj)
}

func (c *copyOf[T]) remove(key name) {
	old, known := c.objects[key]
	if !known {
		return
	}
	delete(c.objects, key)
	c.sorted = nil
	c.changed(old, *new(T))
}

func (c *copyOf[T]) get(key name) (T, bool) {
	obj, known := c.objects[key]
	return obj, known
}

// all are the objects by namespace and name.
func (c *copyOf[T]) all() []T {
	if c.sorted == nil {
		c.sorted = slices.SortedFunc(maps.Values(c.objects), func(a, b T) int { return nameOf(a).compare(nameOf(b)) })
	}
	return c.sorted
}
