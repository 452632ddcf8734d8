// Package disruption keeps the status of PodDisruptionBudgets, by which the apiserver decides about
// evictions. It also resets DisruptionTarget conditions that were not followed by a deletion
// (CTL-52). decide.go counts; controller.go reads and writes.
package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/apps/poddisruptionbudget"

	"github.com/podfall/podfall/proto/kinds"
)

const (
	// DeletionTimeout is how long an evicted pod may exist before the budget counts it as not deleted.
	DeletionTimeout = 2 * time.Minute
	// StaleTimeout is how long a pod may be a DisruptionTarget without being deleted.
	StaleTimeout = 2 * time.Minute
)

// Scale is how many pods a pod's controller wants. Controller is the controller's UID.
type Scale struct {
	Controller types.UID
	Replicas   int32
}

// View is a budget and its pods.
type View struct {
	Budget *policyv1.PodDisruptionBudget
	// Pods are those that the budget selects.
	Pods []*corev1.Pod
	// Scales has the scale of each pod's controller, by the pod's UID. A pod without a controller
	// has none; a pod whose controller is not found is in Unknown.
	Scales  map[types.UID]Scale
	Unknown []string
}

// Decision is what to do about a budget.
type Decision struct {
	// Status is the budget's; Changed is whether it must be written.
	Status  policyv1.PodDisruptionBudgetStatus
	Changed bool
	// NotDeleted are evicted pods that were not deleted in time.
	NotDeleted []*corev1.Pod
	// RecheckAt is when an evicted pod's time is up; zero for never.
	RecheckAt time.Time
	// Err is why the expected pods cannot be counted; then nothing may be disrupted.
	Err error
}

// Decide computes a budget's status at now (trySync).
func Decide(view View, now time.Time) Decision {
	budget := view.Budget
	expected, desired, err := CountExpected(view)
	if err != nil {
		return failSafe(budget, err, now)
	}
	decision := Decision{}
	disrupted := decision.pendingEvictions(view, now)
	healthy := countHealthyPods(view.Pods, disrupted)
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		allowed = 0
	}
	updated := budget.DeepCopy()
	updated.Status.CurrentHealthy, updated.Status.DesiredHealthy = healthy, desired
	updated.Status.ExpectedPods, updated.Status.DisruptionsAllowed = expected, allowed
	updated.Status.DisruptedPods, updated.Status.ObservedGeneration = disrupted, budget.Generation
	before := policyv1.PodDisruptionBudget{Status: *updated.Status.DeepCopy()}
	poddisruptionbudget.UpdateDisruptionAllowedCondition(updated)
	setTransitionTimes(updated.Status.Conditions, before.Status.Conditions, now)
	decision.Status = updated.Status
	decision.Changed = !kinds.Equal(budget.Status, updated.Status)
	return decision
}

// setTransitionTimes gives the conditions that changed this time instead of the machine's.
func setTransitionTimes(conditions, before []metav1.Condition, now time.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Unix(now.Unix(), 0)
		for _, was := range before {
			if was.Type == conditions[i].Type && was.Status == conditions[i].Status {
				conditions[i].LastTransitionTime = was.LastTransitionTime
			}
		}
	}
}

// failSafe allows no disruption, and the condition says why.
func failSafe(budget *policyv1.PodDisruptionBudget, err error, now time.Time) Decision {
	updated := budget.DeepCopy()
	updated.Status.DisruptionsAllowed = 0
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: err.Error(), ObservedGeneration: updated.Status.ObservedGeneration,
	}
	kept := updated.Status.Conditions[:0]
	for _, c := range updated.Status.Conditions {
		if c.Type != condition.Type {
			kept = append(kept, c)
		}
	}
	updated.Status.Conditions = append(kept, condition)
	setTransitionTimes(updated.Status.Conditions, budget.Status.Conditions, now)
	return Decision{
		Status: updated.Status, Changed: !kinds.Equal(budget.Status, updated.Status), Err: err,
	}
}

// Selects reports whether a budget selects a pod of its namespace.
func Selects(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// CountExpected returns how many pods there should be, and how many of them must be healthy
// (getExpectedPodCount).
func CountExpected(view View) (expected, desired int32, err error) {
	spec := view.Budget.Spec
	switch {
	case spec.MaxUnavailable != nil:
		if expected, err = sumScales(view); err != nil {
			return 0, 0, err
		}
		unavailable, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		if err != nil {
			return 0, 0, err
		}
		return expected, max(expected-int32(unavailable), 0), nil
	case spec.MinAvailable == nil:
		return 0, 0, nil
	case spec.MinAvailable.Type == intstr.Int:
		return int32(len(view.Pods)), spec.MinAvailable.IntVal, nil
	}
	if expected, err = sumScales(view); err != nil {
		return 0, 0, err
	}
	available, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
	return expected, int32(available), err
}

// sumScales adds up what the pods' controllers want, each controller once (getExpectedScale).
func sumScales(view View) (int32, error) {
	if len(view.Unknown) > 0 {
		return 0, fmt.Errorf("found no controllers for pod %q", view.Unknown[0])
	}
	seen := map[types.UID]bool{}
	var sum int32
	for _, pod := range view.Pods {
		scale, controlled := view.Scales[pod.UID]
		if controlled && !seen[scale.Controller] {
			seen[scale.Controller] = true
			sum += scale.Replicas
		}
	}
	return sum, nil
}

// pendingEvictions are the evictions without a deletion so far (buildDisruptedPodMap). Times after
// now count as now: upstream lets a time from a clock that was a day ahead hold its pod for a day.
func (d *Decision) pendingEvictions(view View, now time.Time) map[string]metav1.Time {
	entries := view.Budget.Status.DisruptedPods
	if len(entries) == 0 {
		return nil
	}
	rest := map[string]metav1.Time{}
	for _, pod := range view.Pods {
		since, found := entries[pod.Name]
		if !found || pod.DeletionTimestamp != nil {
			continue
		}
		if since.After(now) {
			since = metav1.NewTime(now)
		}
		due := since.Add(DeletionTimeout)
		if due.Before(now) {
			d.NotDeleted = append(d.NotDeleted, pod)
			continue
		}
		rest[pod.Name] = since
		if d.RecheckAt.IsZero() || due.Before(d.RecheckAt) {
			d.RecheckAt = due
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

func countHealthyPods(pods []*corev1.Pod, disrupted map[string]metav1.Time) int32 {
	var count int32
	for _, pod := range pods {
		if _, going := disrupted[pod.Name]; pod.DeletionTimestamp == nil && !going && isReady(pod) {
			count++
		}
	}
	return count
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// StaleAt is when the pod's condition DisruptionTarget is to be reset; zero for never
// (nonTerminatingPodHasStaleDisruptionCondition).
func StaleAt(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return time.Time{}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason != corev1.PodReasonTerminationByKubelet {
			return c.LastTransitionTime.Add(StaleTimeout)
		}
	}
	return time.Time{}
}
