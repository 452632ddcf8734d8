// Package deletion decides what a DELETE means. It is pure: it takes an object, the options of the
// request and the time, and returns a [Decision]. The verbs carry the decision out.
//
// A pod is deleted by two DELETEs. The first is a client's, and its answer is round 1
// (round1_mark.go): the object stays and carries a deadline. When the containers have stopped, the
// kubelet sends the second, with grace 0. Its answer is round 3 (round3_remove.go): the object is
// removed, unless a finalizer holds it. Round 2 happens on the node, between the two.
//
//	                                   no deletionTimestamp          deletionTimestamp set
//	                                 +-----------------------+  +-------------------------------+
//	kind without graceful deletion   | no finalizer: remove  |  | no finalizer: remove          |
//	                                 | else: mark, grace 0   |  | else: mark (mostly a no-op)   |
//	                                 +-----------------------+  +-------------------------------+
//	grace 0 asked                    | mark, then remove     |  | mark with less, then remove   |
//	                                 | unless a finalizer    |  | unless a finalizer            |
//	                                 +-----------------------+  +-------------------------------+
//	grace > 0                        | mark                  |  | less than in force: mark      |
//	                                 |                       |  | otherwise: nothing            |
//	                                 +-----------------------+  +-------------------------------+
//
// The first DELETE of an unscheduled or terminal pod counts as one with grace 0. An object whose
// grace in force is 0 is past grace: it is treated as if its kind had no graceful deletion.
package deletion

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

// Outcome says what a DELETE does to the store.
type Outcome int

// The outcomes, from nothing to everything.
const (
	// Refused changes nothing; Decision.Err says why.
	Refused Outcome = iota
	// Unchanged changes nothing: deletion is under way, and the request adds nothing to it.
	Unchanged
	// Marked writes Decision.Object, which stays.
	Marked
	// Removed removes the object as it is stored.
	Removed
	// MarkedAndRemoved writes Decision.Object and then removes it: watchers see MODIFIED and
	// DELETED (API-41).
	MarkedAndRemoved
)

// String returns the outcome's name in logs and tests.
func (o Outcome) String() string {
	names := []string{"Refused", "Unchanged", "Marked", "Removed", "MarkedAndRemoved"}
	if o < Refused || int(o) >= len(names) {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return names[o]
}

// Decision is the answer to one DELETE of one version of an object.
type Decision struct {
	Outcome Outcome
	// Object is to be written if the outcome marks, and to be answered with. It may be the object
	// that was passed to Decide; never change it.
	Object kinds.Object
	// Grace is the request's grace in seconds, after the kind's policy. The grace in force, in
	// Object, may be another (API-25). nil means that the request named none and that none was
	// needed.
	Grace *int64
	// Err is an apierrors value, set when the outcome is Refused.
	Err error
}

// Policy holds a kind's rules for deletion.
type Policy struct {
	// Kind names the object in messages.
	Kind schema.GroupKind
	// Graceful returns the grace in seconds that the object gets if asked seconds, or nil for none,
	// are requested. ok is false if the kind has no graceful deletion; so is a nil Graceful.
	Graceful func(obj kinds.Object, asked *int64) (seconds int64, ok bool)
	// Propagation applies to dependents if neither the request nor the object names one; empty
	// means Background.
	Propagation metav1.DeletionPropagation
	// DeadlineMayPass lets a shortened deadline lie in the past, as before 1.33.
	DeadlineMayPass bool
}

// Decide says what a DELETE with opts does to obj, the stored version, at now. The order of its
// checks is upstream's BeforeDelete (API-10).
func Decide(obj kinds.Object, policy Policy, opts metav1.DeleteOptions, now time.Time) Decision {
	if err := ValidateOptions(opts); err != nil {
		return refuse(obj, err)
	}
	if err := checkPreconditions(obj, policy.Kind, opts.Preconditions); err != nil {
		return refuse(obj, err)
	}
	asked := atLeastOne(opts.GracePeriodSeconds)
	obj = withoutNegativeGrace(obj)

	if namespace, ok := obj.(*corev1.Namespace); ok {
		return decideNamespace(namespace, policy, opts, now)
	}
	if obj.GetDeletionTimestamp() == nil {
		return markFirst(obj, policy, withGrace(opts, asked), now)
	}
	inForce := obj.GetDeletionGracePeriodSeconds()
	switch {
	case inForce == nil || *inForce == 0:
		return removeOrHold(obj, policy, withGrace(opts, asked), now) // API-20
	case asked == nil || *asked >= *inForce:
		return Decision{Outcome: Unchanged, Object: obj, Grace: asked} // API-21, 22, 23
	default:
		return shorten(obj, policy, withGrace(opts, asked), now)
	}
}

// ValidateOptions refuses options that contradict themselves or name an unknown value (API-04). The
// error is a 422.
func ValidateOptions(opts metav1.DeleteOptions) error {
	errs := validation.ValidateDeleteOptions(&opts)
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
}

// checkPreconditions compares the request's UID and resourceVersion with the stored ones (API-60,
// API-61). Like upstream's, the messages name the kind where other messages name the resource.
func checkPreconditions(obj kinds.Object, kind schema.GroupKind, want *metav1.Preconditions) error {
	if want == nil {
		return nil
	}
	resource := schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
	if uid := want.UID; uid != nil && *uid != obj.GetUID() {
		return apierrors.NewConflict(resource, obj.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated", *uid, obj.GetUID()))
	}
	if rv := want.ResourceVersion; rv != nil && *rv != obj.GetResourceVersion() {
		return apierrors.NewConflict(resource, obj.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
				"The object might have been modified", *rv, obj.GetResourceVersion()))
	}
	return nil
}

// atLeastOne turns a negative grace into 1 second (API-13); only an explicit 0 is 0.
func atLeastOne(seconds *int64) *int64 {
	if seconds != nil && *seconds < 0 {
		return new(int64(1))
	}
	return seconds
}

func withoutNegativeGrace(obj kinds.Object) kinds.Object {
	if grace := obj.GetDeletionGracePeriodSeconds(); grace == nil || *grace >= 0 {
		return obj
	}
	corrected := copyOf(obj)
	corrected.SetDeletionGracePeriodSeconds(new(int64(1)))
	return corrected
}

func withGrace(opts metav1.DeleteOptions, seconds *int64) metav1.DeleteOptions {
	opts.GracePeriodSeconds = seconds
	return opts
}

func refuse(obj kinds.Object, err error) Decision {
	return Decision{Outcome: Refused, Object: obj, Err: err}
}

// finalizersAfter returns the object's finalizers after the request. The garbage collector's two
// finalizers are set as opts, the object itself, or the kind's default want them, in this order;
// the others keep their places (API-49). changed is false if the object has the same finalizers
// already, in any order.
func finalizersAfter(obj kinds.Object, policy Policy, opts metav1.DeleteOptions) (after []string, changed bool) {
	before := obj.GetFinalizers()
	for _, finalizer := range before {
		if !isGarbageCollectors(finalizer) {
			after = append(after, finalizer)
		}
	}
	switch propagation(before, policy, opts) {
	case metav1.DeletePropagationOrphan:
		after = append(after, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		after = append(after, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationBackground:
	}
	same := func(a, b []string) bool {
		return !slices.ContainsFunc(a, func(f string) bool { return !slices.Contains(b, f) })
	}
	if same(before, after) && same(after, before) {
		return before, false
	}
	return after, true
}

func propagation(finalizers []string, policy Policy, opts metav1.DeleteOptions) metav1.DeletionPropagation {
	switch orphan := OrphanDependents(opts); {
	case orphan != nil && *orphan:
		return metav1.DeletePropagationOrphan
	case orphan != nil:
		return metav1.DeletePropagationBackground
	case opts.PropagationPolicy != nil:
		return *opts.PropagationPolicy
	}
	if i := slices.IndexFunc(finalizers, isGarbageCollectors); i >= 0 {
		if finalizers[i] == metav1.FinalizerOrphanDependents {
			return metav1.DeletePropagationOrphan
		}
		return metav1.DeletePropagationForeground
	}
	if policy.Propagation == "" {
		return metav1.DeletePropagationBackground
	}
	return policy.Propagation
}

// OrphanDependents returns the deprecated option: true orphans dependents, false leaves them to the
// garbage collector, nil says nothing.
func OrphanDependents(opts metav1.DeleteOptions) *bool {
	return opts.OrphanDependents //nolint:staticcheck // clients still send it
}

// isGarbageCollectors reports whether finalizer belongs to the garbage collector.
func isGarbageCollectors(finalizer string) bool {
	return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
}

func copyOf(obj kinds.Object) kinds.Object {
	copied, ok := obj.DeepCopyObject().(kinds.Object)
	if !ok {
		panic(fmt.Sprintf("deletion: a copy of %T has no metadata", obj))
	}
	return copied
}
