// Package eviction decides whether a pod may be evicted, and what that writes besides the
// deletion. It is pure: a pod, the budgets of its namespace and the time go in, a
// [Decision] comes out. The verbs carry it out, and package deletion decides the DELETE
// itself.
//
//	pod finished, pending or being deleted   no budget is asked
//	more than one budget matches             refused: 500
//	pod not ready, and its budget does not   no budget is spent, but the pod must still be
//	count on it                              the one that was looked at
//	budget not up to date, or empty          refused: 429
//	otherwise                                one disruption is spent
package eviction

import (
	"fmt"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/podcondition"
)

// Decision is the answer to one eviction of one version of a pod.
type Decision struct {
	// Err is an apierrors value if the eviction is refused; then nothing is to be written.
	Err error
	// Budget is the budget with one disruption spent; nil if none is spent.
	Budget *policyv1.PodDisruptionBudget
	// Unguarded names the budget that let the pod pass because it is not ready. The pod
	// may have become ready since: when its version is no longer current, the eviction is
	// refused with [StillProcessing] instead of being decided again.
	Unguarded string
	// Pod is the pod with the condition that says why it ends; it is to be written
	// before it is deleted.
	Pod *corev1.Pod
}

// maxDisrupted is how many pods a budget's status may list before evictions wait for the
// controller (API-86).
const maxDisrupted = 2000

// Decide says what an eviction of pod does at now. budgets are all those of the pod's
// namespace. What goes in is not changed. It is upstream's EvictionREST.Create.
func Decide(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget, now time.Time) Decision {
	target := withCondition(pod, now)
	if ignoresBudgets(pod) {
		return Decision{Pod: target}
	}
	matching := matchingBudgets(pod, budgets)
	if len(matching) == 0 {
		return Decision{Pod: target}
	}
	if len(matching) > 1 {
		return Decision{Err: errTooManyBudgets()}
	}
	budget := matching[0]
	if !isReady(pod) && passesUnready(budget) {
		return Decision{Pod: target, Unguarded: budget.Name}
	}
	if err := checkBudget(budget); err != nil {
		return Decision{Err: err}
	}
	return Decision{Pod: target, Budget: spend(budget, pod.Name, now)}
}

// ignoresBudgets reports whether a pod counts for no budget (API-83).
func ignoresBudgets(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	case corev1.PodRunning, corev1.PodUnknown:
	}
	return pod.DeletionTimestamp != nil
}

// matchingBudgets returns the budgets whose selector finds the pod. An empty selector finds every pod of
// the namespace. A missing or wrong selector finds none (EvictionREST.getPodDisruptionBudgets).
func matchingBudgets(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, budget := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return found
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// passesUnready reports whether a budget allows unready pods to be evicted, which do not count for
// it (API-85).
func passesUnready(budget *policyv1.PodDisruptionBudget) bool {
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	status := budget.Status
	return status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0
}

// checkBudget refuses an eviction that a budget does not allow (API-86).
func checkBudget(budget *policyv1.PodDisruptionBudget) error {
	status := budget.Status
	switch {
	case status.ObservedGeneration < budget.Generation:
		return StillProcessing(budget.Name)
	case status.DisruptionsAllowed < 0:
		const why = "pdb disruptions allowed is negative"
		return forbidden(budget.Name, why, why)
	case len(status.DisruptedPods) > maxDisrupted:
		return forbidden(budget.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case status.DisruptionsAllowed > 0:
		return nil
	}
	return tooMany(0, exhausted(budget))
}

// exhausted explains why a budget has no disruption left.
func exhausted(budget *policyv1.PodDisruptionBudget) string {
	status := budget.Status
	condition := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	denied := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""
	refusal := fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", budget.Name)
	switch {
	case denied && condition.Reason == policyv1.SyncFailedReason:
		return refusal + " because it failed sync: " + condition.Message
	case status.CurrentHealthy <= status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, status.DesiredHealthy, status.CurrentHealthy)
	case denied:
		return fmt.Sprintf("%s (%s): %s", refusal, condition.Reason, condition.Message)
	}
	return refusal
}

// StillProcessing refuses an eviction for now: the controller has not processed the budget of that
// name yet. The error is a 429 that asks for ten seconds.
func StillProcessing(budget string) error {
	const seconds = 10
	return tooMany(seconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

func tooMany(seconds int, cause string) error {
	refused := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: cause}}
	return refused
}

func forbidden(budget, why, cause string) error {
	refused := apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), budget, fmt.Errorf("%s", why))
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", budget, cause),
	}}
	return refused
}

// errTooManyBudgets is API-84. Upstream's has neither a reason nor details.
func errTooManyBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

// spend returns the budget with one disruption less, and the pod among the disrupted ones (API-87).
func spend(budget *policyv1.PodDisruptionBudget, pod string, now time.Time) *policyv1.PodDisruptionBudget {
	spent := budget.DeepCopy()
	at := metav1.Unix(now.Unix(), 0)
	spent.Status.DisruptionsAllowed--
	if spent.Status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&spent.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: spent.Status.ObservedGeneration, LastTransitionTime: at,
		})
	}
	disrupted := maps.Clone(spent.Status.DisruptedPods)
	if disrupted == nil {
		disrupted = map[string]metav1.Time{}
	}
	disrupted[pod] = at
	spent.Status.DisruptedPods = disrupted
	return spent
}

// withCondition returns a copy of pod with the condition that an eviction ends it.
func withCondition(pod *corev1.Pod, now time.Time) *corev1.Pod {
	target := pod.DeepCopy()
	evicted := podcondition.Disruption("EvictionByEvictionAPI", "Eviction API: evicting")
	evicted.ObservedGeneration = pod.Generation
	podcondition.Set(target, evicted, now)
	return target
}
