package garbage

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
)

// Item is what the collector knows about an object: metadata only.
type Item struct {
	Kind       schema.GroupVersionKind
	Namespace  string
	Name       string
	UID        types.UID
	Version    string // resourceVersion
	Owners     []metav1.OwnerReference
	Finalizers []string
	Deleting   bool
}

// ItemOf returns the item of an object.
func ItemOf(kind kinds.Kind, obj kinds.Object) Item {
	return Item{
		Kind: kind.GroupVersionKind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		Version: obj.GetResourceVersion(), Owners: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
		Deleting: obj.GetDeletionTimestamp() != nil,
	}
}

// OwnerOf returns an owner as its dependent describes it.
func OwnerOf(item Item, ref metav1.OwnerReference) Item { return virtualItem(item.Namespace, ref) }

// IsGoing reports whether the item is being deleted and nothing has to be decided about it.
func (i Item) IsGoing() bool { return i.Deleting && !i.WaitsForDependents() }

// WaitsForDependents reports whether the item is being deleted in the foreground.
func (i Item) WaitsForDependents() bool {
	return i.Deleting && slices.Contains(i.Finalizers, metav1.FinalizerDeleteDependents)
}

// WaitsForOrphans reports whether the item is being deleted and its dependents are to be orphaned.
func (i Item) WaitsForOrphans() bool {
	return i.Deleting && slices.Contains(i.Finalizers, metav1.FinalizerOrphanDependents)
}

// Graph is who depends on whom, as far as the collector knows. It is owned by one goroutine at a
// time.
//
// An owner that was never seen is a virtual node, until it is seen or found to be absent. Owners
// are compared by UID alone here. Whether an owner is where its dependent says is checked with the
// API, not with the graph.
type Graph struct {
	nodes  map[types.UID]*node
	absent map[types.UID]bool // owners that were found to be gone, at most maxAbsent
}

const maxAbsent = 500

type node struct {
	item       Item
	virtual    bool
	dependents map[types.UID]bool
}

// NewGraph returns an empty Graph.
func NewGraph() *Graph {
	return &Graph{nodes: map[types.UID]*node{}, absent: map[types.UID]bool{}}
}

// Work is what has to be processed after a change of the graph.
type Work struct {
	// Process names items to decide about. Orphan names items whose dependents are to be orphaned.
	Process, Orphan []types.UID
	// Misplaced are references to owners in another namespace.
	Misplaced []Misplaced
}

// Misplaced is a reference from an item to an owner in another namespace.
type Misplaced struct {
	Item  Item
	Owner metav1.OwnerReference
}

// Get returns what is known about an item; virtual is true for an owner that was never seen.
func (g *Graph) Get(uid types.UID) (item Item, virtual, known bool) {
	n := g.nodes[uid]
	if n == nil {
		return Item{}, false, false
	}
	return n.item, n.virtual, true
}

// Dependents returns the items that name uid as an owner, sorted by UID.
func (g *Graph) Dependents(uid types.UID) []Item {
	n := g.nodes[uid]
	if n == nil {
		return nil
	}
	items := make([]Item, 0, len(n.dependents))
	for dependent := range n.dependents {
		if d := g.nodes[dependent]; d != nil {
			items = append(items, d.item)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return compare(a.UID, b.UID) })
	return items
}

// Set records an item that is new or has changed (processGraphChanges).
func (g *Graph) Set(item Item) Work {
	var work Work
	n := g.nodes[item.UID]
	if n == nil {
		n = &node{}
		g.nodes[item.UID] = n
	} else if n.virtual {
		for _, dependent := range g.Dependents(item.UID) {
			work.checkReference(dependent, item)
		}
	}
	before := n.item
	n.virtual = false
	n.item = item
	g.relink(n, before, &work)
	if item.WaitsForOrphans() && !before.WaitsForOrphans() {
		work.Orphan = append(work.Orphan, item.UID)
	}
	if item.WaitsForDependents() && !before.WaitsForDependents() {
		for dependent := range n.dependents {
			work.Process = append(work.Process, dependent)
		}
		work.Process = append(work.Process, item.UID)
	}
	slices.SortFunc(work.Process, compare)
	work.Process = slices.Compact(work.Process)
	return work
}

// relink moves n from its former owners to its present ones. An owner that it no longer blocks must
// be processed, and so must the item itself if it has a new owner.
func (g *Graph) relink(n *node, before Item, work *Work) {
	for _, was := range before.Owners {
		i := slices.IndexFunc(n.item.Owners, func(is metav1.OwnerReference) bool { return is.UID == was.UID })
		owner := g.nodes[was.UID]
		if i < 0 && owner != nil {
			delete(owner.dependents, n.item.UID)
		}
		if (i < 0 || blocks(was) && !blocks(n.item.Owners[i])) && owner != nil && owner.item.WaitsForDependents() {
			work.Process = append(work.Process, was.UID)
		}
	}
	for _, ref := range n.item.Owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			owner = &node{virtual: true, item: virtualItem(n.item.Namespace, ref)}
			g.nodes[ref.UID] = owner
			work.Process = append(work.Process, ref.UID)
		}
		if owner.dependents == nil {
			owner.dependents = map[types.UID]bool{}
		}
		if !owner.dependents[n.item.UID] {
			owner.dependents[n.item.UID] = true
			if !owner.virtual {
				work.checkReference(n.item, owner.item)
			}
		}
	}
	if hasNewOwner(before.Owners, n.item.Owners) && !n.item.Deleting {
		work.Process = append(work.Process, n.item.UID)
	}
}

// virtualItem returns an owner as a dependent in a namespace describes it.
func virtualItem(namespace string, ref metav1.OwnerReference) Item {
	return Item{
		Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), Namespace: namespace, Name: ref.Name, UID: ref.UID,
	}
}

// hasNewOwner reports whether an item has an owner that it did not have before.
func hasNewOwner(before, after []metav1.OwnerReference) bool {
	return slices.ContainsFunc(after, func(ref metav1.OwnerReference) bool {
		return !slices.ContainsFunc(before, func(was metav1.OwnerReference) bool { return was.UID == ref.UID })
	})
}

// checkReference records a reference to an owner that is in another namespace, or is another object
// than the reference says.
func (w *Work) checkReference(dependent, owner Item) {
	for _, ref := range dependent.Owners {
		elsewhere := owner.Namespace != "" && owner.Namespace != dependent.Namespace
		other := ref.Kind != owner.Kind.Kind || ref.Name != owner.Name
		if ref.UID != owner.UID || !elsewhere && !other {
			continue
		}
		w.Process = append(w.Process, dependent.UID)
		if dependent.Namespace != "" {
			w.Misplaced = append(w.Misplaced, Misplaced{Item: dependent, Owner: ref})
		}
	}
}

// Remove records that an item is gone, or that an owner never existed.
func (g *Graph) Remove(uid types.UID) Work {
	var work Work
	n := g.nodes[uid]
	if n == nil {
		return work
	}
	for _, ref := range n.item.Owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			continue
		}
		delete(owner.dependents, uid)
		switch {
		case owner.virtual && len(owner.dependents) == 0:
			delete(g.nodes, ref.UID)
		case owner.item.WaitsForDependents():
			work.Process = append(work.Process, ref.UID)
		}
	}
	for dependent := range n.dependents {
		work.Process = append(work.Process, dependent)
	}
	slices.SortFunc(work.Process, compare)
	delete(g.nodes, uid)
	return work
}

// Replace records that these items, and no others, of a kind exist.
func (g *Graph) Replace(kind schema.GroupKind, items []Item) Work {
	var work Work
	listed := map[types.UID]bool{}
	for _, item := range items {
		listed[item.UID] = true
		work.merge(g.Set(item))
	}
	var gone []types.UID
	for uid, n := range g.nodes {
		if n.item.Kind.GroupKind() == kind && !n.virtual && !listed[uid] {
			gone = append(gone, uid)
		}
	}
	slices.SortFunc(gone, compare)
	for _, uid := range gone {
		work.merge(g.Remove(uid))
	}
	return work
}

// ErrUnseen has an item processed again that exists, but that no list and no event has shown yet.
var ErrUnseen = errors.New("no list and no event has shown it yet")

// CheckSeen returns an error for an item that exists, but that no list and no event has shown. If
// it comes and goes between two lists, no event ever shows it. The dependents of an item that is
// not checked again would then stay for ever (kubernetes#56121).
func (g *Graph) CheckSeen(uid types.UID) error {
	if n := g.nodes[uid]; n != nil && n.virtual {
		return ErrUnseen
	}
	return nil
}

// RecordAbsent records that an owner is gone; UIDs are never used twice.
func (g *Graph) RecordAbsent(uid types.UID) {
	if _, unseen, known := g.Get(uid); known && !unseen {
		return // it is there, but not where this reference says
	}
	if len(g.absent) >= maxAbsent {
		clear(g.absent)
	}
	g.absent[uid] = true
}

// IsAbsent reports whether an owner is known to be gone.
func (g *Graph) IsAbsent(uid types.UID) bool { return g.absent[uid] }

func (w *Work) merge(other Work) {
	w.Process = append(w.Process, other.Process...)
	w.Orphan = append(w.Orphan, other.Orphan...)
	w.Misplaced = append(w.Misplaced, other.Misplaced...)
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}
