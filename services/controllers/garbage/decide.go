// Package garbage deletes objects whose owners are gone, and carries out foreground and
// orphaning deletes (CTL-35, API-50). graph.go is who depends on whom; decide.go says
// what becomes of one object, given what the API says of its owners; controller.go asks
// and acts. It knows metadata only, of every kind there is.
package garbage

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is what the API says of one owner reference.
type Owner int

// The states of an owner.
const (
	// Solid is there, and not waiting for its dependents.
	Solid Owner = iota
	// Absent is not there, or is another object of that name.
	Absent
	// Waiting is there, deleted in the foreground, and waits for its dependents.
	Waiting
	// Unresolvable is a namespaced owner of an object without a namespace: nobody can say.
	Unresolvable
)

// StateOf is what a live read of an owner says; found is nil when there was none.
func StateOf(ref metav1.OwnerReference, found *Item) Owner {
	switch {
	case found == nil, found.UID != ref.UID:
		return Absent
	case found.WaitsForDependents():
		return Waiting
	}
	return Solid
}

// Outcome is what becomes of an item.
type Outcome int

// The outcomes.
const (
	// Keep leaves it alone.
	Keep Outcome = iota
	// Release takes references away: Decision.References are those that stay.
	Release
	// Delete deletes it with Decision.Policy.
	Delete
	// Finish takes the finalizer foregroundDeletion away: no dependent blocks any more.
	Finish
)

// Decision is what to do with one item.
type Decision struct {
	Outcome    Outcome
	References []metav1.OwnerReference
	Policy     metav1.DeletionPropagation
	// Unblock sets blockOwnerDeletion to false in all references first: the item is part
	// of a circle of foreground deletes.
	Unblock bool
	// Look names dependents that are worth looking at before.
	Look []types.UID
}

// Options are those of the delete of an item that was decided on: of this very one, gracefully.
func (d Decision) Options(item Item) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &item.UID}, PropagationPolicy: &d.Policy}
}

// Decide says what becomes of an item as it was just read; owners are the states of its
// references, in their order (attemptToDeleteItem).
func Decide(latest Item, owners []Owner, dependents []Item) Decision {
	switch {
	case latest.WaitsForDependents():
		return finish(latest, dependents)
	case latest.Deleting, len(latest.Owners) == 0, slices.Contains(owners, Unresolvable):
		return Decision{}
	}
	var solid []metav1.OwnerReference
	for i, state := range owners {
		if state == Solid {
			solid = append(solid, latest.Owners[i])
		}
	}
	switch {
	case len(solid) == len(owners):
		return Decision{}
	case len(solid) > 0:
		return Decision{Outcome: Release, References: solid}
	case slices.Contains(owners, Waiting) && len(dependents) > 0:
		return Decision{
			Outcome: Delete, Policy: metav1.DeletePropagationForeground,
			Unblock: slices.ContainsFunc(dependents, Item.WaitsForDependents),
		}
	}
	return Decision{Outcome: Delete, Policy: ownPolicy(latest)}
}

// ownPolicy is what the item's own finalizers ask for.
func ownPolicy(item Item) metav1.DeletionPropagation {
	switch {
	case slices.Contains(item.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(item.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// finish lets an item go that is deleted in the foreground when nothing blocks it, and
// looks at what does (processDeletingDependentsItem).
func finish(item Item, dependents []Item) Decision {
	blocked := false
	var look []types.UID
	for _, dependent := range dependents {
		for _, ref := range dependent.Owners {
			if ref.UID != item.UID || !blocks(ref) {
				continue
			}
			blocked = true
			if !dependent.WaitsForDependents() {
				look = append(look, dependent.UID)
			}
		}
	}
	if blocked {
		return Decision{Look: look}
	}
	return Decision{Outcome: Finish}
}

// Without is the item's references without those to owner.
func Without(item Item, owner types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(item.Owners), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
}

// Unblocked is the item's references with blockOwnerDeletion false.
func Unblocked(item Item) []metav1.OwnerReference {
	refs := slices.Clone(item.Owners)
	for i := range refs {
		if blocks(refs[i]) {
			refs[i].BlockOwnerDeletion = new(false)
		}
	}
	return refs
}

// MisplacedMessage is what the event OwnerRefInvalidNamespace says.
func MisplacedMessage(m Misplaced) string {
	return fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		m.Owner.APIVersion, m.Owner.Kind, m.Item.Namespace, m.Owner.Name, m.Owner.UID, m.Item.Namespace)
}

func compare(a, b types.UID) int { return cmp.Compare(a, b) }
