// Package namespace empties a namespace that is being deleted and then removes its finalizer
// (API-90). decide.go says what to delete, in what order, what the namespace's conditions are and
// when to check again; controller.go carries it out.
package namespace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/podfall/podfall/proto/kinds"
)

// Step is what a namespace needs next.
type Step int

// The steps, in their order.
const (
	// Nothing is left to do: the namespace is not being deleted, or another component's finalizer
	// holds it.
	Nothing Step = iota
	// MarkPhase writes the phase Terminating.
	MarkPhase
	// Empty deletes the content.
	Empty
)

// NextStep returns what the namespace needs first.
func NextStep(ns *corev1.Namespace) Step {
	switch {
	case ns.DeletionTimestamp == nil, !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes):
		return Nothing
	case ns.Status.Phase != corev1.NamespaceTerminating:
		return MarkPhase
	}
	return Empty
}

// SettleTime is how long after a change of a namespace it is emptied, so that objects created at
// the last moment are seen.
const SettleTime = 5 * time.Second

// WithTerminatingPhase returns the namespace with the phase Terminating.
func WithTerminatingPhase(ns *corev1.Namespace) *corev1.Namespace {
	marked := ns.DeepCopy()
	marked.Status.Phase = corev1.NamespaceTerminating
	return marked
}

// DeleteOptions returns the options for deleting the content: each object has its own grace period.
func DeleteOptions() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
}

// Content returns the kinds to delete in a namespace, each once: pods, which are deleted alone, and
// the others, which follow when no pod is left.
func Content(all []kinds.Kind) (pods kinds.Kind, others []kinds.Kind) {
	seen := map[schema.GroupResource]bool{}
	for _, kind := range all {
		resource := kind.GroupResource()
		switch {
		case !kind.Namespaced || seen[resource]:
		case resource == corev1.Resource("pods"):
			pods = kind
		default:
			others = append(others, kind)
		}
		seen[resource] = true
	}
	return pods, others
}

// Leftover is what a kind still has in the namespace after its deletion was requested.
type Leftover struct {
	Resource   schema.GroupVersionResource
	Count      int
	Finalizers map[string]int
	// Estimate is in how many seconds the rest may be gone.
	Estimate int64
	Err      error
}

// Remains reports whether objects of the kind are left, so that the next kind has to wait.
func (l Leftover) Remains() bool { return l.Count > 0 || l.Err != nil }

// finalizerEstimate is the time, in seconds, that finalizers are given.
const finalizerEstimate = 15

// NewLeftover says what it means that these objects of a kind are still there. asked is the grace
// in seconds that the pods among them need, 0 for other kinds. Objects that remain without grace
// and without finalizers are an error.
func NewLeftover(namespace string, resource schema.GroupVersionResource, items []kinds.Object, asked int64) Leftover {
	left := Leftover{Resource: resource, Count: len(items), Finalizers: map[string]int{}, Estimate: asked}
	for _, item := range items {
		for _, finalizer := range item.GetFinalizers() {
			left.Finalizers[finalizer]++
		}
	}
	switch {
	case len(items) == 0:
		left.Estimate = 0
	case asked != 0:
	case len(left.Finalizers) > 0:
		left.Estimate = finalizerEstimate
	default:
		left.Err = fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", namespace, resource)
	}
	return left
}

// PodGrace returns how many seconds the pods among objects may still need: the longest grace of
// those that are not terminal, less the time since the namespace was deleted. A clock that was
// ahead at the deletion does not lengthen the wait.
func PodGrace(objects []kinds.Object, deleted, now time.Time) int64 {
	var longest int64
	for _, obj := range objects {
		pod, is := obj.(*corev1.Pod)
		if !is || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
			longest = max(longest, *grace)
		}
	}
	return max(longest-max(int64(now.Sub(deleted)/time.Second), 0), 0)
}

// Sweep is the result of one attempt to empty a namespace.
type Sweep struct {
	// Discovery says why some kinds are unknown.
	Discovery error
	Left      []Leftover
}

// Verdict is what to do after a sweep.
type Verdict struct {
	// Conditions are the namespace's conditions; Changed says whether they must be written.
	Conditions []corev1.NamespaceCondition
	Changed    bool
	// Finalize is true if nothing is left.
	Finalize bool
	// RequeueAfter is when to check again; 0 with Err means with the queue's back-off.
	RequeueAfter time.Duration
	Err          error
}

// Evaluate returns what a sweep means for the namespace.
func Evaluate(ns *corev1.Namespace, sweep Sweep, now time.Time) Verdict {
	var failed []error
	var estimate int64
	for _, left := range sweep.Left {
		estimate = max(estimate, left.Estimate)
		if left.Err != nil {
			failed = append(failed, left.Err)
		}
	}
	verdict := Verdict{}
	verdict.Conditions, verdict.Changed = mergeConditions(ns.Status.Conditions, problemConditions(sweep, failed), now)
	verdict.Err = utilerrors.NewAggregate(slices.Concat(discoveryErrors(sweep), failed))
	switch {
	case verdict.Err != nil:
	case estimate > 0:
		verdict.RequeueAfter = time.Duration(estimate/2+1) * time.Second
	default:
		verdict.Finalize = true
	}
	return verdict
}

func discoveryErrors(sweep Sweep) []error {
	if sweep.Discovery == nil {
		return nil
	}
	return []error{sweep.Discovery}
}

// problemConditions returns the conditions that say why the namespace is not empty, in upstream's
// words (namespaced_resources_deleter.go, status_condition_utils.go).
func problemConditions(sweep Sweep, failed []error) []corev1.NamespaceCondition {
	var found []corev1.NamespaceCondition
	add := func(kind corev1.NamespaceConditionType, reason, message string) {
		found = append(found, corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	}
	if sweep.Discovery != nil {
		add(corev1.NamespaceDeletionDiscoveryFailure, "DiscoveryFailed", sweep.Discovery.Error())
	}
	if len(failed) > 0 {
		slices.SortFunc(failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
		add(corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed", fmt.Sprintf(
			"Failed to delete all resource types, %d remaining: %v", len(failed), utilerrors.NewAggregate(failed)))
	}
	var resources []string
	finalizers := map[string]int{}
	for _, left := range sweep.Left {
		if left.Count > 0 {
			resources = append(resources, fmt.Sprintf("%s.%s has %d resource instances", left.Resource.Resource, left.Resource.Group, left.Count))
		}
		for finalizer, count := range left.Finalizers {
			finalizers[finalizer] += count
		}
	}
	if len(resources) > 0 {
		slices.Sort(resources)
		add(corev1.NamespaceContentRemaining, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(resources, ", "))
	}
	if len(finalizers) > 0 {
		var texts []string
		for _, finalizer := range slices.Sorted(maps.Keys(finalizers)) {
			texts = append(texts, fmt.Sprintf("%s in %d resource instances", finalizer, finalizers[finalizer]))
		}
		add(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+strings.Join(texts, ", "))
	}
	return found
}

// clearConditions returns the conditions of a namespace without problems, in their order.
func clearConditions() []corev1.NamespaceCondition {
	return []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{
			Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted",
			Message: "All content successfully deleted, may be waiting on finalization",
		},
		{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
}

// mergeConditions updates the conditions with those that were found; the others become False.
func mergeConditions(old, found []corev1.NamespaceCondition, now time.Time) (merged []corev1.NamespaceCondition, changed bool) {
	merged = slices.Clone(old)
	for _, wanted := range clearConditions() {
		wanted.Status = corev1.ConditionFalse
		if i := slices.IndexFunc(found, hasType(wanted.Type)); i >= 0 {
			wanted = found[i]
		}
		wanted.LastTransitionTime = metav1.Unix(now.Unix(), 0)
		i := slices.IndexFunc(merged, hasType(wanted.Type))
		switch {
		case i < 0:
			merged, changed = append(merged, wanted), true
		case merged[i].Status != wanted.Status || merged[i].Reason != wanted.Reason || merged[i].Message != wanted.Message:
			if merged[i].Status == wanted.Status {
				wanted.LastTransitionTime = merged[i].LastTransitionTime
			}
			merged[i], changed = wanted, true
		}
	}
	return merged, changed
}

func hasType(kind corev1.NamespaceConditionType) func(corev1.NamespaceCondition) bool {
	return func(c corev1.NamespaceCondition) bool { return c.Type == kind }
}

// WithoutContentFinalizer returns the namespace without the finalizer for its content.
func WithoutContentFinalizer(ns *corev1.Namespace) *corev1.Namespace {
	finalized := ns.DeepCopy()
	finalized.Spec.Finalizers = slices.DeleteFunc(finalized.Spec.Finalizers, func(f corev1.FinalizerName) bool {
		return f == corev1.FinalizerKubernetes
	})
	return finalized
}
