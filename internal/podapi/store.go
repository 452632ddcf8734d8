package podapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
)

// Store is a Sink that can be asked: a copy in memory, by name and by UID. It is safe
// for concurrent use. The objects in it are shared: copy one before changing it.
//
// To act on every change, take Changed before reading:
//
//	for {
//		changed := store.Changed()
//		use(store.List())
//		select {
//		case <-changed:
//		case <-ctx.Done():
//			return
//		}
//	}
type Store struct {
	mu      sync.RWMutex
	named   map[types.NamespacedName]kinds.Object
	uids    map[types.UID]kinds.Object
	at      string
	changed chan struct{}
	synced  chan struct{}
}

// NewStore is an empty store, not synced.
func NewStore() *Store {
	return &Store{
		named:   map[types.NamespacedName]kinds.Object{},
		uids:    map[types.UID]kinds.Object{},
		changed: make(chan struct{}),
		synced:  make(chan struct{}),
	}
}

// Replace implements Sink.
func (s *Store) Replace(items []kinds.Object, resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = make(map[types.NamespacedName]kinds.Object, len(items))
	s.uids = make(map[types.UID]kinds.Object, len(items))
	for _, obj := range items {
		s.put(obj)
	}
	if s.at == "" {
		close(s.synced)
	}
	s.tell(resourceVersion)
}

// Apply implements Sink.
func (s *Store) Apply(event watch.Event) {
	obj, ok := event.Object.(kinds.Object)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch event.Type {
	case watch.Added, watch.Modified:
		s.put(obj)
	case watch.Deleted:
		s.drop(nameOf(obj))
	case watch.Bookmark, watch.Error:
		return
	}
	s.tell(obj.GetResourceVersion())
}

// put stores obj; another object of the same name, which has another UID, goes.
func (s *Store) put(obj kinds.Object) {
	s.drop(nameOf(obj))
	s.named[nameOf(obj)] = obj
	s.uids[obj.GetUID()] = obj
}

func (s *Store) drop(name types.NamespacedName) {
	if old, ok := s.named[name]; ok {
		delete(s.uids, old.GetUID())
		delete(s.named, name)
	}
}

func (s *Store) tell(resourceVersion string) {
	s.at = resourceVersion
	close(s.changed)
	s.changed = make(chan struct{})
}

// Get is the object of that name.
func (s *Store) Get(namespace, name string) (kinds.Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, ok := s.named[types.NamespacedName{Namespace: namespace, Name: name}]
	return obj, ok
}

// ByUID is the object of that UID.
func (s *Store) ByUID(uid types.UID) (kinds.Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, ok := s.uids[uid]
	return obj, ok
}

// List is every object, by namespace and name.
func (s *Store) List() []kinds.Object {
	s.mu.RLock()
	objs := slices.Collect(maps.Values(s.named))
	s.mu.RUnlock()
	slices.SortFunc(objs, func(a, b kinds.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objs
}

// Len is the number of objects.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.named)
}

// ResourceVersion is the revision of the last change; empty before the first list.
func (s *Store) ResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.at
}

// HasSynced reports whether the store has been filled once.
func (s *Store) HasSynced() bool { return s.ResourceVersion() != "" }

// Synced is closed when the store has been filled once.
func (s *Store) Synced() <-chan struct{} { return s.synced }

// WaitSynced waits until the store has been filled once, or ctx ends.
func (s *Store) WaitSynced(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Changed is closed at the next change.
func (s *Store) Changed() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

func nameOf(obj kinds.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
