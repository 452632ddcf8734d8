package garbage

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
)

// workers is how many items are processed at once.
const workers = 20

// Controller keeps a graph of all objects and acts on its changes.
type Controller struct {
	api      control.API
	kinds    *directory.Directory
	recorder control.Recorder
	log      *slog.Logger
	items    *loop.Loop[types.UID]
	orphans  *loop.Loop[types.UID]

	mu    sync.Mutex
	graph *Graph
}

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	c := &Controller{
		api: base.API, kinds: base.Kinds(), recorder: base.Events("garbage-collector-controller"), log: base.Log,
		graph: NewGraph(),
	}
	config := loop.Config{
		Name: "garbage_collector_attempt_to_delete", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers,
	}
	c.items = loop.New(config, c.process)
	config.Name = "garbage_collector_attempt_to_orphan"
	c.orphans = loop.New(config, c.orphan)
	return c
}

// updateGraph changes the graph and queues the work that follows.
func (c *Controller) updateGraph(with func(*Graph) Work) {
	c.mu.Lock()
	work := with(c.graph)
	c.mu.Unlock()
	for _, uid := range work.Process {
		c.items.Add(uid)
	}
	for _, uid := range work.Orphan {
		c.orphans.Add(uid)
	}
	for _, misplaced := range work.Misplaced {
		c.recorder.Event(objectOf(misplaced.Item), corev1.EventTypeWarning, "OwnerRefInvalidNamespace", MisplacedMessage(misplaced))
	}
}

// lookup returns what the graph has about an item.
func (c *Controller) lookup(uid types.UID) (item Item, dependents []Item, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, _, known = c.graph.Get(uid)
	return item, c.graph.Dependents(uid), known
}

// checkSeen is [Graph.CheckSeen].
func (c *Controller) checkSeen(uid types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.graph.CheckSeen(uid)
}

// process decides about one item. It reads the item and its owners from the API, and after that
// takes its dependents from the graph (attemptToDeleteItem).
func (c *Controller) process(ctx context.Context, uid types.UID) error {
	item, _, known := c.lookup(uid)
	if !known || item.IsGoing() {
		return nil
	}
	latest, err := c.read(ctx, item)
	if err != nil {
		return err
	}
	if latest == nil || latest.UID != uid {
		c.removeItem(uid)
		return nil
	}
	owners := make([]OwnerState, 0, len(latest.Owners))
	for _, ref := range latest.Owners {
		state, err := c.ownerState(ctx, *latest, ref)
		if err != nil {
			return err
		}
		owners = append(owners, state)
	}
	_, dependents, _ := c.lookup(uid)
	if err := c.applyDecision(ctx, *latest, Decide(*latest, owners, dependents)); err != nil {
		return err
	}
	return c.checkSeen(uid)
}

// removeItem removes an item that does not exist from the graph.
func (c *Controller) removeItem(uid types.UID) {
	c.updateGraph(func(g *Graph) Work { return g.Remove(uid) })
}

// ownerState returns the state of the owner in a reference, from the API.
func (c *Controller) ownerState(ctx context.Context, item Item, ref metav1.OwnerReference) (OwnerState, error) {
	c.mu.Lock()
	absent := c.graph.IsAbsent(ref.UID)
	c.mu.Unlock()
	if absent {
		return Absent, nil
	}
	owner := OwnerOf(item, ref)
	kind, ok := c.kinds.ByGVK(owner.Kind)
	switch {
	case !ok:
		return Unresolvable, fmt.Errorf("garbage collect %s %s: no kind %s, which its owner has", item.Kind.Kind, item.Name, owner.Kind)
	case kind.Namespaced && item.Namespace == "":
		c.log.WarnContext(ctx, "an object without a namespace has an owner with one", "kind", item.Kind.Kind, "name", item.Name, "owner", ref.Name)
		return Unresolvable, nil
	}
	found, err := c.read(ctx, owner)
	if err != nil {
		return Unresolvable, err
	}
	state := StateOf(ref, found)
	if state == Absent {
		c.recordAbsent(ref.UID)
	}
	return state, nil
}

// recordAbsent records that an owner is gone.
func (c *Controller) recordAbsent(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.graph.RecordAbsent(uid)
}

func (c *Controller) applyDecision(ctx context.Context, item Item, decision Decision) error {
	for _, uid := range decision.Process {
		c.items.Add(uid)
	}
	switch decision.Outcome {
	case Keep:
		return nil
	case Release:
		return c.patch(ctx, item, func() ([]byte, error) { return ReferencesPatch(item, decision.References) })
	case Finish:
		return c.patch(ctx, item, func() ([]byte, error) { return FinalizerPatch(item, metav1.FinalizerDeleteDependents) })
	case Delete:
	}
	if decision.Unblock {
		if err := c.patch(ctx, item, func() ([]byte, error) { return ReferencesPatch(item, Unblocked(item)) }); err != nil {
			return err
		}
	}
	target, err := c.target(item)
	if err != nil {
		return err
	}
	_, err = c.api.Delete(ctx, target, decision.Options(item))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// orphan removes the owner from its dependents' references, and then its own finalizer
// (attemptToOrphan).
func (c *Controller) orphan(ctx context.Context, uid types.UID) error {
	owner, dependents, known := c.lookup(uid)
	if !known {
		return nil
	}
	for _, dependent := range dependents {
		if err := c.release(ctx, dependent, uid); err != nil {
			return err
		}
	}
	latest, err := c.read(ctx, owner)
	if err != nil || latest == nil || latest.UID != uid || !latest.WaitsForOrphans() {
		return err
	}
	return c.patch(ctx, *latest, func() ([]byte, error) { return FinalizerPatch(*latest, metav1.FinalizerOrphanDependents) })
}

// release removes an owner from a dependent's references. It reads the dependent from the API if
// the graph's version of it is old.
func (c *Controller) release(ctx context.Context, dependent Item, owner types.UID) error {
	err := c.patch(ctx, dependent, func() ([]byte, error) { return ReferencesPatch(dependent, Without(dependent, owner)) })
	if !apierrors.IsConflict(err) {
		return err
	}
	latest, err := c.read(ctx, dependent)
	if err != nil || latest == nil || latest.UID != dependent.UID {
		return err
	}
	return c.patch(ctx, *latest, func() ([]byte, error) { return ReferencesPatch(*latest, Without(*latest, owner)) })
}

// patch sends a merge patch; an item that is gone needs none.
func (c *Controller) patch(ctx context.Context, item Item, write func() ([]byte, error)) error {
	data, err := write()
	if err != nil {
		return err
	}
	target, err := c.target(item)
	if err != nil {
		return err
	}
	_, err = c.api.Patch(ctx, target, types.MergePatchType, data, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// read reads an item from the API; nil if it does not exist.
func (c *Controller) read(ctx context.Context, item Item) (*Item, error) {
	target, err := c.target(item)
	if err != nil {
		return nil, err
	}
	obj, err := c.api.Get(ctx, target, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return new(ItemOf(target.Kind, obj)), nil
}

func (c *Controller) target(item Item) (podapi.Target, error) {
	kind, ok := c.kinds.ByGVK(item.Kind)
	if !ok {
		return podapi.Target{}, fmt.Errorf("garbage collect %s: no kind %s", item.Name, item.Kind)
	}
	target := podapi.Target{Kind: kind, Name: item.Name}
	if kind.Namespaced {
		target.Namespace = item.Namespace
	}
	return target, nil
}

// objectOf returns an object with the item's metadata, for an event.
func objectOf(item Item) kinds.Object {
	obj, err := kinds.New(item.Kind)
	if err != nil {
		custom := &unstructured.Unstructured{}
		custom.SetGroupVersionKind(item.Kind)
		obj = custom
	}
	obj.SetNamespace(item.Namespace)
	obj.SetName(item.Name)
	obj.SetUID(item.UID)
	obj.SetResourceVersion(item.Version)
	return obj
}
