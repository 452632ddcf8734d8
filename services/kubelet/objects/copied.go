package objects

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
)

// objectCopy is the copy of one object, or of its absence. The cache's lock guards all fields
// except the first four, which never change.
type objectCopy struct {
	cache *Cache
	key   key
	stop  context.CancelFunc
	// listed is closed when the first list has come.
	listed chan struct{}

	users  map[types.UID]bool
	known  bool
	object kinds.Object
}

// Replace implements podapi.Sink.
func (c *objectCopy) Replace(items []kinds.Object, _ string) {
	var found kinds.Object
	for _, item := range items {
		if item.GetName() == c.key.name {
			found = item
		}
	}
	c.update(found)
}

// Apply implements podapi.Sink.
func (c *objectCopy) Apply(event watch.Event) {
	obj, ok := event.Object.(kinds.Object)
	if !ok || obj.GetName() != c.key.name {
		return
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		c.update(obj)
	case watch.Deleted:
		c.update(nil)
	case watch.Bookmark, watch.Error:
	}
}

// update takes a version, and wakes the pods that use the object. An immutable object is no longer
// watched, as in upstream.
func (c *objectCopy) update(obj kinds.Object) {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	changed := c.known && revision(obj) != revision(c.object)
	c.object = obj
	if !c.known {
		c.known = true
		close(c.listed)
	}
	if isImmutable(obj) {
		c.stop()
	}
	if !changed {
		return
	}
	for uid := range c.users {
		c.cache.changed[uid] = true
	}
	signal(c.cache.wake)
}

// revision distinguishes versions; it is empty for no object.
func revision(obj kinds.Object) string {
	if obj == nil {
		return ""
	}
	return string(obj.GetUID()) + "/" + obj.GetResourceVersion()
}

func isImmutable(obj kinds.Object) bool {
	var is *bool
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		is = obj.Immutable
	case *corev1.Secret:
		is = obj.Immutable
	}
	return is != nil && *is
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// errNoServices is upstream's text.
var errNoServices = errors.New("services have not yet been read at least once, cannot construct envvars")

// services is the copy of all Services.
type services struct {
	listed chan struct{}

	mu    sync.Mutex
	known map[types.NamespacedName]*corev1.Service
}

func newServices() *services {
	return &services{listed: make(chan struct{}), known: map[types.NamespacedName]*corev1.Service{}}
}

// Replace implements podapi.Sink.
func (s *services) Replace(items []kinds.Object, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	for _, item := range items {
		s.put(item)
	}
	select {
	case <-s.listed:
	default:
		close(s.listed)
	}
}

// Apply implements podapi.Sink.
func (s *services) Apply(event watch.Event) {
	obj, ok := event.Object.(kinds.Object)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if event.Type == watch.Deleted {
		delete(s.known, nameOf(obj))
		return
	}
	s.put(obj)
}

func (s *services) put(obj kinds.Object) {
	if service, ok := obj.(*corev1.Service); ok {
		s.known[nameOf(obj)] = service
	}
}

func nameOf(obj kinds.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (s *services) inNamespace(namespace string) []*corev1.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*corev1.Service
	for name, service := range s.known {
		if name.Namespace == namespace || name == (types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}) {
			found = append(found, service)
		}
	}
	slices.SortFunc(found, compareAge)
	return found
}
