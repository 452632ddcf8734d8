// Package objects keeps copies of the ConfigMaps, Secrets and RuntimeClasses that the node's pods refer
// to, and of the Services that their environments name. A copy is followed by a watch of
// its own from the first pod that refers to it until the last has gone (upstream's
// watch-based manager): the node may read no others, and a node that is cut off from the
// API restarts its containers with what it last saw.
package objects

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/proto/kinds"
)

// API follows objects.
type API interface {
	Follow(ctx context.Context, target podapi.Target, opts metav1.ListOptions, sink podapi.Sink) error
}

// Config holds what a Cache uses.
type Config struct {
	API   API
	Clock clock.Clock
	// Patience is how long a reader waits for a copy's first list.
	Patience time.Duration
}

// Cache holds the node's copies. It is safe for concurrent use.
type Cache struct {
	cfg      Config
	kinds    map[string]kinds.Kind
	services *services

	group sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	copies  map[key]*objectCopy
	pods    map[types.UID]registered
	changed map[types.UID]bool
	wake    chan struct{}
}

// key identifies an object that pods can refer to.
type key struct{ resource, namespace, name string }

// registered is a pod, and the objects that it refers to.
type registered struct {
	pod  *corev1.Pod
	keys []key
}

// New returns a cache that follows nothing. The error is a gap in the table of kinds.
func New(cfg Config) (*Cache, error) {
	c := &Cache{
		cfg: cfg, kinds: map[string]kinds.Kind{}, services: newServices(), copies: map[key]*objectCopy{},
		pods: map[types.UID]registered{}, changed: map[types.UID]bool{}, wake: make(chan struct{}, 1),
	}
	for _, resource := range []string{podrefs.ConfigMaps, podrefs.Secrets, runtimeClasses, "services"} {
		kind, ok := kinds.ByResource(resource)
		if !ok {
			return nil, fmt.Errorf("the table of kinds has no %s", resource)
		}
		c.kinds[resource] = kind
	}
	return c, nil
}

// Run follows the Services until ctx ends, and then waits for the followers of all copies.
func (c *Cache) Run(ctx context.Context) error {
	err := c.cfg.API.Follow(ctx, podapi.Target{Kind: c.kinds["services"]}, metav1.ListOptions{}, c.services)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.group.Wait()
	return err
}

// Register follows the objects that the pod refers to, until ctx ends or the pod is forgotten.
func (c *Cache) Register(ctx context.Context, pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.pods[pod.UID]
	if c.closed || known && old.pod == pod {
		return
	}
	var keys []key
	for _, ref := range podrefs.List(pod) {
		if ref.Resource == podrefs.ConfigMaps || ref.Resource == podrefs.Secrets {
			keys = append(keys, key{ref.Resource, pod.Namespace, ref.Name})
		}
	}
	if class := pod.Spec.RuntimeClassName; class != nil && *class != "" {
		keys = append(keys, key{resource: runtimeClasses, name: *class})
	}
	for _, k := range keys {
		if c.copies[k] == nil {
			c.follow(ctx, k)
		}
		c.copies[k].users[pod.UID] = true
	}
	for _, k := range old.keys {
		if !slices.Contains(keys, k) {
			c.release(k, pod.UID)
		}
	}
	c.pods[pod.UID] = registered{pod, keys}
}

// Forget drops the references of a pod (KBL-60(4)).
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.pods[uid].keys {
		c.release(k, uid)
	}
	delete(c.pods, uid)
	delete(c.changed, uid)
}

// follow creates a copy. The caller holds the lock.
func (c *Cache) follow(ctx context.Context, k key) {
	ctx, cancel := context.WithCancel(ctx)
	made := &objectCopy{cache: c, key: k, users: map[types.UID]bool{}, stop: cancel, listed: make(chan struct{})}
	c.copies[k] = made
	target := podapi.Target{Kind: c.kinds[k.resource], Namespace: k.namespace}
	c.group.Go(func() {
		defer cancel()
		_ = c.cfg.API.Follow(ctx, target, metav1.ListOptions{ // it ends with its context alone
			FieldSelector: fields.OneTermEqualSelector("metadata.name", k.name).String(),
		}, made)
	})
}

// release drops one pod's reference, and the copy with the last reference. The caller holds the
// lock.
func (c *Cache) release(k key, uid types.UID) {
	held := c.copies[k]
	delete(held.users, uid)
	if len(held.users) == 0 {
		held.stop()
		delete(c.copies, k)
	}
}

// ConfigMap returns the copy of a ConfigMap that a registered pod refers to. Errors are upstream's.
func (c *Cache) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return get[*corev1.ConfigMap](ctx, c, key{podrefs.ConfigMaps, namespace, name})
}

// Secret returns the copy of a Secret, as ConfigMap does.
func (c *Cache) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return get[*corev1.Secret](ctx, c, key{podrefs.Secrets, namespace, name})
}

const runtimeClasses = "runtimeclasses.node.k8s.io"

// RuntimeHandler returns what the class of a registered pod's is called on the node; empty for no class
// (LookupRuntimeHandler).
func (c *Cache) RuntimeHandler(ctx context.Context, pod *corev1.Pod) (string, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	class, err := get[*nodev1.RuntimeClass](ctx, c, key{resource: runtimeClasses, name: *name})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return "", apierrors.NewNotFound(nodev1.Resource("runtimeclass"), *name)
		}
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: %w", *name, err)
	}
	return class.Handler, nil
}

// get returns a copy. It waits for its first list, at most for the reader's patience.
func get[T kinds.Object](ctx context.Context, c *Cache, k key) (T, error) {
	var none T
	c.mu.Lock()
	held := c.copies[k]
	c.mu.Unlock()
	if held == nil {
		return none, fmt.Errorf("object %q/%q not registered", k.namespace, k.name)
	}
	kind := strings.TrimSuffix(k.resource, "s") // as upstream's message has it
	select {
	case <-held.listed:
	default:
		waiting, cancel := c.cfg.Clock.Timeout(ctx, c.cfg.Patience)
		defer cancel()
		select {
		case <-held.listed:
		case <-waiting.Done():
			return none, fmt.Errorf("failed to sync %s cache: timed out waiting for the condition", kind)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	obj, ok := held.object.(T)
	if !ok {
		return none, apierrors.NewNotFound(corev1.Resource(kind), k.name)
	}
	return obj, nil
}

// Services returns the Services whose addresses pods of the namespace may be told: all of the
// namespace and kubernetes in default, oldest first.
func (c *Cache) Services(ctx context.Context, namespace string) ([]*corev1.Service, error) {
	waiting, cancel := c.cfg.Clock.Timeout(ctx, c.cfg.Patience)
	defer cancel()
	select {
	case <-c.services.listed:
	case <-waiting.Done():
		return nil, errNoServices
	}
	return c.services.inNamespace(namespace), nil
}

// Changes is readable when objects of registered pods have changed; Take says whose.
func (c *Cache) Changes() <-chan struct{} { return c.wake }

// Take returns the UIDs of the pods whose objects have changed since the last call.
func (c *Cache) Take() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	uids := slices.Sorted(maps.Keys(c.changed))
	clear(c.changed)
	return uids
}

// compareAge orders Services by age, and by name if the ages are equal.
func compareAge(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}
