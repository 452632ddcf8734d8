package sim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestWrongBudget judges budgets with right counts and with wrong counts.
func TestWrongBudget(t *testing.T) {
	least, most := policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2))}, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}
	counts := func(expected, healthy, allowed int32) policyv1.PodDisruptionBudgetStatus {
		return policyv1.PodDisruptionBudgetStatus{ExpectedPods: expected, CurrentHealthy: healthy, DisruptionsAllowed: allowed}
	}
	waits := counts(3, 3, 1)
	waits.DisruptedPods = map[string]metav1.Time{"web-1": {}}
	const ready, unready, alone = "ready", "unready", "alone" // alone: ready, and nobody's
	for _, c := range []struct {
		name   string
		spec   policyv1.PodDisruptionBudgetSpec
		pods   []string
		status policyv1.PodDisruptionBudgetStatus
		right  bool
	}{
		{"two of three have to stay", least, []string{ready, ready, ready}, counts(3, 3, 1), true},
		{"two of three have to stay, and may go both", least, []string{ready, ready, ready}, counts(3, 3, 2), false},
		{"one of three may go, and has", most, []string{ready, ready, unready}, counts(3, 2, 0), true},
		{"one of three may go, and two may", most, []string{ready, ready, unready}, counts(3, 2, 1), false},
		{"fewer than have to stay", least, []string{ready}, counts(1, 1, 0), true},
		{"a pod that is gone is counted", least, []string{ready, ready}, counts(3, 2, 0), false},
		{"a pod that is not ready is counted healthy", least, []string{ready, ready, unready}, counts(3, 3, 1), false},
		{"nobody's pods count where two have to stay", least, []string{ready, ready, alone}, counts(3, 3, 1), true},
		{"nobody's pods do not where one may go", most, []string{alone, alone}, counts(0, 2, 0), true},
		{"nobody's pods may go all", most, []string{alone, alone}, counts(0, 2, 2), false},
		{"it waits for one that was let go", least, []string{ready, ready, ready}, waits, false},
	} {
		var pods []*corev1.Pod
		for _, kind := range c.pods {
			pod := &corev1.Pod{}
			if kind != alone {
				pod.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}}
			}
			if kind != unready {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			pods = append(pods, pod)
		}
		if got := budgetProblem(&policyv1.PodDisruptionBudget{Spec: c.spec, Status: c.status}, pods); (got == "") != c.right {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
