package sim

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/garbage"
)

const garbageCollector = "garbage-collector-controller"

// monitor tells the graph of what a copy is told of a kind.
type monitor struct {
	podapi.Sink

	kind        kinds.Kind
	controllers *controllers
}

func (c *controllers) monitored(f *Follower) podapi.Sink { return monitor{f.Sink, f.Target.Kind, c} }

// Replace implements podapi.Sink.
func (m monitor) Replace(objects []kinds.Object, revision string) {
	m.Sink.Replace(objects, revision)
	items := make([]garbage.Item, 0, len(objects))
	for _, obj := range objects {
		items = append(items, garbage.ItemOf(m.kind, obj))
	}
	m.controllers.enqueueItems(m.controllers.graph.Replace(m.kind.GroupKind(), items))
}

// Apply implements podapi.Sink.
func (m monitor) Apply(event watch.Event) {
	m.Sink.Apply(event)
	obj, is := event.Object.(kinds.Object)
	if !is {
		return
	}
	graph, item := m.controllers.graph, garbage.ItemOf(m.kind, obj)
	if event.Type == watch.Deleted {
		m.controllers.enqueueItems(graph.Remove(item.UID))
		graph.RecordAbsent(item.UID)
		return
	}
	m.controllers.enqueueItems(graph.Set(item))
}

// enqueueItems queues the items that a change of the graph affects.
func (c *controllers) enqueueItems(work garbage.Work) {
	for _, uid := range work.Process {
		c.enqueue(lookDependent, name{"", string(uid)})
	}
	for _, uid := range work.Orphan {
		c.enqueue(lookOrphans, name{"", string(uid)})
	}
}

// syncDependent decides about one item, by what the API itself says of it and of its owners.
func (c *controllers) syncDependent(key string, uid types.UID) {
	item, _, known := c.graph.Get(uid)
	if !known || item.IsGoing() {
		return
	}
	done := c.start(key)
	c.readItem(item, func(latest *garbage.Item, err error) {
		switch {
		case err != nil:
			done(err)
		case latest == nil, latest.UID != uid:
			c.enqueueItems(c.graph.Remove(uid))
			done(nil)
		default:
			c.ownerStates(*latest, nil, func(owners []garbage.OwnerState, err error) {
				if err != nil {
					done(err)
					return
				}
				c.applyDecision(*latest, garbage.Decide(*latest, owners, c.graph.Dependents(uid)), func(err error) {
					if err == nil {
						err = c.graph.CheckSeen(uid)
					}
					done(err)
				})
			})
		}
	})
}

// ownerStates reads the states of an item's owners, one after the other, after those that are
// known.
func (c *controllers) ownerStates(item garbage.Item, known []garbage.OwnerState, then func([]garbage.OwnerState, error)) {
	if len(known) == len(item.Owners) {
		then(known, nil)
		return
	}
	ref := item.Owners[len(known)]
	owner := garbage.OwnerOf(item, ref)
	kind, is := kinds.ByGVK(owner.Kind)
	switch {
	case c.graph.IsAbsent(ref.UID):
		c.ownerStates(item, append(known, garbage.Absent), then)
		return
	case !is, kind.Namespaced && item.Namespace == "":
		c.ownerStates(item, append(known, garbage.Unresolvable), then)
		return
	}
	c.readItem(owner, func(found *garbage.Item, err error) {
		if err != nil {
			then(nil, err)
			return
		}
		state := garbage.StateOf(ref, found)
		if state == garbage.Absent {
			c.graph.RecordAbsent(ref.UID)
		}
		c.ownerStates(item, append(known, state), then)
	})
}

// applyDecision carries out a decision about an item.
func (c *controllers) applyDecision(item garbage.Item, decision garbage.Decision, then func(error)) {
	for _, uid := range decision.Process {
		c.enqueue(lookDependent, name{"", string(uid)})
	}
	switch decision.Outcome {
	case garbage.Keep:
		then(nil)
		return
	case garbage.Release:
		c.setOwners(item, decision.References, then)
		return
	case garbage.Finish:
		c.removeFinalizer(item, metav1.FinalizerDeleteDependents, then)
		return
	case garbage.Delete:
	}
	remove := func(err error) {
		if err != nil {
			then(err)
			return
		}
		options := decision.Options(item)
		c.write(garbageCollector, Ask{Verb: proto.VerbDelete, Target: targetOfItem(item), Options: &options}, nil, func(got Outcome) {
			then(ignoreIf(apierrors.IsNotFound, got.Err))
		})
	}
	if !decision.Unblock {
		remove(nil)
		return
	}
	c.setOwners(item, garbage.Unblocked(item), remove)
}

// syncOrphans takes an owner out of its dependents' references, and lets it go.
func (c *controllers) syncOrphans(key string, uid types.UID) {
	owner, _, known := c.graph.Get(uid)
	if !known {
		return
	}
	done := c.start(key)
	c.orphanDependents(c.graph.Dependents(uid), uid, func(err error) {
		if err != nil {
			done(err)
			return
		}
		c.readItem(owner, func(latest *garbage.Item, err error) {
			if err != nil || latest == nil || latest.UID != uid || !latest.WaitsForOrphans() {
				done(err)
				return
			}
			c.removeFinalizer(*latest, metav1.FinalizerOrphanDependents, done)
		})
	})
}

// orphanDependents removes an owner from the references of dependents, one after the other. A
// dependent that the graph knows in an old version is read again.
func (c *controllers) orphanDependents(dependents []garbage.Item, owner types.UID, then func(error)) {
	if len(dependents) == 0 {
		then(nil)
		return
	}
	first := dependents[0]
	next := func(err error) {
		if err != nil {
			then(err)
			return
		}
		c.orphanDependents(dependents[1:], owner, then)
	}
	c.setOwners(first, garbage.Without(first, owner), func(err error) {
		if !apierrors.IsConflict(err) {
			next(err)
			return
		}
		c.readItem(first, func(latest *garbage.Item, err error) {
			if err != nil || latest == nil || latest.UID != first.UID {
				next(err)
				return
			}
			c.setOwners(*latest, garbage.Without(*latest, owner), next)
		})
	})
}

// setOwners gives this version of an item these owners.
func (c *controllers) setOwners(item garbage.Item, owners []metav1.OwnerReference, then func(error)) {
	patch, err := garbage.ReferencesPatch(item, owners)
	c.patchItem(item, patch, err, then)
}

// removeFinalizer removes a finalizer from this version of an item.
func (c *controllers) removeFinalizer(item garbage.Item, finalizer string, then func(error)) {
	patch, err := garbage.FinalizerPatch(item, finalizer)
	c.patchItem(item, patch, err, then)
}

// patchItem sends a merge patch; a missing item is no error.
func (c *controllers) patchItem(item garbage.Item, patch []byte, err error, then func(error)) {
	if err != nil {
		then(err)
		return
	}
	ask := Ask{Verb: proto.VerbPatch, Target: targetOfItem(item), PatchType: types.MergePatchType, Patch: patch}
	c.write(garbageCollector, ask, nil, func(got Outcome) { then(ignoreIf(apierrors.IsNotFound, got.Err)) })
}

// readItem reads an item from the API; nil if there is none.
func (c *controllers) readItem(item garbage.Item, then func(*garbage.Item, error)) {
	target := targetOfItem(item)
	c.write(garbageCollector, Ask{Verb: proto.VerbGet, Target: target}, nil, func(got Outcome) {
		obj, is := got.Object.(kinds.Object)
		if got.Err != nil || !is {
			then(nil, ignoreIf(apierrors.IsNotFound, got.Err))
			return
		}
		then(new(garbage.ItemOf(target.Kind, obj)), nil)
	})
}

// targetOfItem is where an item of a kind that the API has is.
func targetOfItem(item garbage.Item) podapi.Target {
	kind, _ := kinds.ByGVK(item.Kind)
	target := podapi.Target{Kind: kind, Name: item.Name}
	if kind.Namespaced {
		target.Namespace = item.Namespace
	}
	return target
}
