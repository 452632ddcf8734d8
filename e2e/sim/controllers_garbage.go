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
	m.controllers.regard(m.controllers.graph.Replace(m.kind.GroupKind(), items))
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
		m.controllers.regard(graph.Remove(item.UID))
		graph.RecordAbsent(item.UID)
		return
	}
	m.controllers.regard(graph.Set(item))
}

// regard has the items looked at that a change of the graph is about.
func (c *controllers) regard(work garbage.Work) {
	for _, uid := range work.Process {
		c.look(lookDependent, name{"", string(uid)})
	}
	for _, uid := range work.Orphan {
		c.look(lookOrphans, name{"", string(uid)})
	}
}

// syncDependent decides about one item, by what the API itself says of it and of its owners.
func (c *controllers) syncDependent(key string, uid types.UID) {
	item, _, known := c.graph.Get(uid)
	if !known || item.IsGoing() {
		return
	}
	done := c.begun(key)
	c.read(item, func(latest *garbage.Item, err error) {
		switch {
		case err != nil:
			done(err)
		case latest == nil, latest.UID != uid:
			c.regard(c.graph.Remove(uid))
			done(nil)
		default:
			c.ask(*latest, nil, func(owners []garbage.OwnerState, err error) {
				if err != nil {
					done(err)
					return
				}
				c.cascade(*latest, garbage.Decide(*latest, owners, c.graph.Dependents(uid)), func(err error) {
					if err == nil {
						err = c.graph.CheckSeen(uid)
					}
					done(err)
				})
			})
		}
	})
}

// ask finds the states of an item's owners, one after the other, behind those that are known.
func (c *controllers) ask(item garbage.Item, known []garbage.OwnerState, then func([]garbage.OwnerState, error)) {
	if len(known) == len(item.Owners) {
		then(known, nil)
		return
	}
	ref := item.Owners[len(known)]
	owner := garbage.OwnerOf(item, ref)
	kind, is := kinds.ByGVK(owner.Kind)
	switch {
	case c.graph.IsAbsent(ref.UID):
		c.ask(item, append(known, garbage.Absent), then)
		return
	case !is, kind.Namespaced && item.Namespace == "":
		c.ask(item, append(known, garbage.Unresolvable), then)
		return
	}
	c.read(owner, func(found *garbage.Item, err error) {
		if err != nil {
			then(nil, err)
			return
		}
		state := garbage.StateOf(ref, found)
		if state == garbage.Absent {
			c.graph.RecordAbsent(ref.UID)
		}
		c.ask(item, append(known, state), then)
	})
}

// cascade carries out what was decided about an item.
func (c *controllers) cascade(item garbage.Item, decision garbage.Decision, then func(error)) {
	for _, uid := range decision.Process {
		c.look(lookDependent, name{"", string(uid)})
	}
	switch decision.Outcome {
	case garbage.Keep:
		then(nil)
		return
	case garbage.Release:
		c.relate(item, decision.References, then)
		return
	case garbage.Finish:
		c.finish(item, metav1.FinalizerDeleteDependents, then)
		return
	case garbage.Delete:
	}
	remove := func(err error) {
		if err != nil {
			then(err)
			return
		}
		options := decision.Options(item)
		c.write(garbageCollector, Ask{Verb: proto.VerbDelete, Target: targetOfItem(item), Options: &options}, nil, func(got Got) {
			then(lest(apierrors.IsNotFound, got.Err))
		})
	}
	if !decision.Unblock {
		remove(nil)
		return
	}
	c.relate(item, garbage.Unblocked(item), remove)
}

// syncOrphans takes an owner out of its dependents' references, and lets it go.
func (c *controllers) syncOrphans(key string, uid types.UID) {
	owner, _, known := c.graph.Get(uid)
	if !known {
		return
	}
	done := c.begun(key)
	c.orphan(c.graph.Dependents(uid), uid, func(err error) {
		if err != nil {
			done(err)
			return
		}
		c.read(owner, func(latest *garbage.Item, err error) {
			if err != nil || latest == nil || latest.UID != uid || !latest.WaitsForOrphans() {
				done(err)
				return
			}
			c.finish(*latest, metav1.FinalizerOrphanDependents, done)
		})
	})
}

// orphan takes an owner out of the references of dependents, one after the other; one of which
// the graph's version is old is read anew.
func (c *controllers) orphan(dependents []garbage.Item, owner types.UID, then func(error)) {
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
		c.orphan(dependents[1:], owner, then)
	}
	c.relate(first, garbage.Without(first, owner), func(err error) {
		if !apierrors.IsConflict(err) {
			next(err)
			return
		}
		c.read(first, func(latest *garbage.Item, err error) {
			if err != nil || latest == nil || latest.UID != first.UID {
				next(err)
				return
			}
			c.relate(*latest, garbage.Without(*latest, owner), next)
		})
	})
}

// relate gives this version of an item these owners.
func (c *controllers) relate(item garbage.Item, owners []metav1.OwnerReference, then func(error)) {
	patch, err := garbage.ReferencesPatch(item, owners)
	c.patchItem(item, patch, err, then)
}

// finish takes a finalizer from this version of an item.
func (c *controllers) finish(item garbage.Item, finalizer string, then func(error)) {
	patch, err := garbage.FinalizerPatch(item, finalizer)
	c.patchItem(item, patch, err, then)
}

// patchItem sends a merge patch; an item that is gone needs none.
func (c *controllers) patchItem(item garbage.Item, patch []byte, err error, then func(error)) {
	if err != nil {
		then(err)
		return
	}
	ask := Ask{Verb: proto.VerbPatch, Target: targetOfItem(item), PatchType: types.MergePatchType, Patch: patch}
	c.write(garbageCollector, ask, nil, func(got Got) { then(lest(apierrors.IsNotFound, got.Err)) })
}

// read is an item as the API has it, nil when it has none.
func (c *controllers) read(item garbage.Item, then func(*garbage.Item, error)) {
	target := targetOfItem(item)
	c.write(garbageCollector, Ask{Verb: proto.VerbGet, Target: target}, nil, func(got Got) {
		obj, is := got.Object.(kinds.Object)
		if got.Err != nil || !is {
			then(nil, lest(apierrors.IsNotFound, got.Err))
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
