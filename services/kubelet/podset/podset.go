// Package podset turns what the API says about a node's pods into the operations that
// the kubelet's loop acts on. All of it is pure; podsource queues the results.
package podset

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
)

// Verb says what happened to a pod of the node.
type Verb int

// The verbs, in the order in which one diff emits them (KBL-01).
const (
	// Remove: the UID is gone from the API.
	Remove Verb = iota
	// Add: the UID is new, even if it is already being deleted.
	Add
	// Update: spec, labels or annotations differ.
	Update
	// Delete: as Update, or the deadline moved, and the pod is being deleted.
	Delete
	// Reconcile: only the status differs.
	Reconcile
)

// String returns the verb as upstream's log spells it.
func (v Verb) String() string {
	switch v {
	case Remove:
		return "REMOVE"
	case Add:
		return "ADD"
	case Update:
		return "UPDATE"
	case Delete:
		return "DELETE"
	case Reconcile:
		return "RECONCILE"
	}
	return "UNKNOWN"
}

// Op is one operation. Pod is the newest object, or the last one known when it was
// removed; it is shared and never written.
type Op struct {
	Verb Verb
	Pod  *corev1.Pod
}

// Diff compares two complete sets by UID (KBL-01). Within a verb the operations are in
// the order of creation time, namespace, name and UID.
func Diff(before map[types.UID]*corev1.Pod, after []*corev1.Pod) []Op {
	var ops []Op
	kept := make(map[types.UID]bool, len(after))
	for _, pod := range after {
		kept[pod.UID] = true
		if op, differs := Change(before[pod.UID], pod); differs {
			ops = append(ops, op)
		}
	}
	for _, pod := range Sorted(before) {
		if !kept[pod.UID] {
			ops = append(ops, Op{Remove, pod})
		}
	}
	slices.SortStableFunc(ops, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Verb, b.Verb), compare(a.Pod, b.Pod))
	})
	return ops
}

// Change classifies what happened to one UID (KBL-02); before is nil for a new UID.
// It reports false when nothing that matters differs.
func Change(before, after *corev1.Pod) (Op, bool) {
	switch {
	case before == after:
		return Op{}, false
	case before == nil:
		return Op{Add, after}, true
	case mustTellWorker(before, after) && after.DeletionTimestamp != nil:
		return Op{Delete, after}, true
	case mustTellWorker(before, after):
		return Op{Update, after}, true
	case !kinds.Equal(before.Status, after.Status):
		return Op{Reconcile, after}, true
	}
	return Op{}, false
}

// mustTellWorker reports whether a worker has to know of the change.
func mustTellWorker(before, after *corev1.Pod) bool {
	return !before.DeletionTimestamp.Equal(after.DeletionTimestamp) ||
		!kinds.Equal(before.DeletionGracePeriodSeconds, after.DeletionGracePeriodSeconds) ||
		!maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!sameSpec(before, after)
}

// sameSpec compares the specs only if the generations do not tell (API-73).
func sameSpec(before, after *corev1.Pod) bool {
	if before.Generation != 0 && before.Generation == after.Generation {
		return true
	}
	return kinds.Equal(before.Spec, after.Spec)
}

// Sorted returns the pods by creation time, namespace, name and UID.
func Sorted(pods map[types.UID]*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(maps.Values(pods), compare)
}

func compare(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// Newer returns the copy of a pod with the higher revision; either may be nil.
func Newer(a, b *corev1.Pod) *corev1.Pod {
	if a == nil || (b != nil && revision(b) > revision(a)) {
		return b
	}
	return a
}

func revision(pod *corev1.Pod) int64 {
	n, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
