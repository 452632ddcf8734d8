// Package garbage deletes objects whose owners are gone, and carries out foreground and orphaning
// deletes (CTL-35, API-50). graph.go keeps who depends on whom; decide.go says what to do with one
// object, from what the API says about its owners; controller.go reads and acts. The package knows
// the metadata only, of objects of every kind.
package garbage

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnerState is the state of the owner in one owner reference.
type OwnerState int

// The states of an owner.
const (
	// Solid means that the owner exists and does not wait for its dependents.
	Solid OwnerState = iota
	// Absent means that the owner does not exist, or that another object has its name.
	Absent
	// Waiting means that the owner is being deleted in the foreground and waits for its dependents.
	Waiting
	// Unresolvable means that the owner has a namespace but the object has none, so it cannot be
	// looked up.
	Unresolvable
)

// StateOf returns an owner's state from a read of the API; found is nil if the API has no such
// object.
func StateOf(ref metav1.OwnerReference, found *Item) OwnerState {
	switch {
	case found == nil, found.UID != ref.UID:
		return Absent
	case found.WaitsForDependents():
		return Waiting
	}
	return Solid
}

// Outcome is what to do with an item.
type Outcome int

// The outcomes.
const (
	// Keep leaves the item alone.
	Keep Outcome = iota
	// Release removes owner references; Decision.References are those that stay.
	Release
	// Delete deletes the item with Decision.Policy.
	Delete
	// Finish removes the finalizer foregroundDeletion: no dependent blocks any more.
	Finish
)

// Decision is what to do with one item.
type Decision struct {
	Outcome    Outcome
	References []metav1.OwnerReference
	Policy     metav1.DeletionPropagation
	// Unblock sets blockOwnerDeletion to false in all references first, because the item is part of
	// a cycle of foreground deletes.
	Unblock bool
	// Process names dependents to process first.
	Process []types.UID
}

// Options returns the delete options for the item: with its UID as a precondition, and with its own
// grace.
func (d Decision) Options(item Item) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &item.UID}, PropagationPolicy: &d.Policy}
}

// Decide returns what to do with an item that was just read. owners are the states of its
// references, in their order (attemptToDeleteItem).
func Decide(latest Item, owners []OwnerState, dependents []Item) Decision {
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
	return Decision{Outcome: Delete, Policy: finalizerPolicy(latest)}
}

// finalizerPolicy returns the deletion policy that the item's own finalizers ask for.
func finalizerPolicy(item Item) metav1.DeletionPropagation {
	switch {
	case slices.Contains(item.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(item.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// finish removes the finalizer of an item that is deleted in the foreground if nothing blocks it.
// Otherwise the blocking dependents are processed (processDeletingDependentsItem).
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
		return Decision{Process: look}
	}
	return Decision{Outcome: Finish}
}

// Without returns the item's references without those to owner.
func Without(item Item, owner types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(item.Owners), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
}

// Unblocked returns the item's references with blockOwnerDeletion false.
func Unblocked(item Item) []metav1.OwnerReference {
	refs := slices.Clone(item.Owners)
	for i := range refs {
		if blocks(refs[i]) {
			refs[i].BlockOwnerDeletion = new(false)
		}
	}
	return refs
}

// MisplacedMessage returns the message of the event OwnerRefInvalidNamespace.
func MisplacedMessage(m Misplaced) string {
	return fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		m.Owner.APIVersion, m.Owner.Kind, m.Item.Namespace, m.Owner.Name, m.Owner.UID, m.Item.Namespace)
}

func compare(a, b types.UID) int { return cmp.Compare(a, b) }
