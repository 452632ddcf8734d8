package eviction_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/eviction"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func pod(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 3, Labels: map[string]string{"app": "web"}}}
	p.Status.Phase = phase
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

func budget(name string, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Generation: 2},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2},
	}
	if change != nil {
		change(b)
	}
	return b
}

func allowing(n int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = n }
}

func healthy(current, desired int32, policy policyv1.UnhealthyPodEvictionPolicyType) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Status.CurrentHealthy, b.Status.DesiredHealthy = current, desired
		if policy != "" {
			b.Spec.UnhealthyPodEvictionPolicy = &policy
		}
	}
}

// TestDecide is the table of upstream's TestEviction, TestEvictionIgnorePDB and
// TestEvictionPDBStatus, in words: the code of a refusal and its cause, or what passes.
func TestDecide(t *testing.T) {
	const violates = "429 Cannot evict pod as it would violate the pod's disruption budget. / "
	running, unready := pod(corev1.PodRunning, corev1.ConditionTrue), pod(corev1.PodRunning, corev1.ConditionFalse)
	terminating := pod(corev1.PodRunning, corev1.ConditionTrue)
	terminating.DeletionTimestamp = &metav1.Time{Time: noon}
	many := map[string]metav1.Time{}
	for i := range 2001 {
		many[fmt.Sprint(i)] = metav1.Time{}
	}
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		{"no budget", running, nil, "free"},
		{"of another namespace", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" })}, "free"},
		{"selects others", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" })}, "free"},
		{"selects everything", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} })}, violates + "The disruption budget a needs 0 healthy pods and has 0 currently"},
		{"selects everything elsewhere", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) {
			b.Namespace, b.Spec.Selector = "other", &metav1.LabelSelector{}
		})}, "free"},
		{"no selector", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil })}, "free"},
		{"wrong selector", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "No"}}
		})}, "free"},
		{"empty", running, []*policyv1.PodDisruptionBudget{budget("a", healthy(2, 3, ""))}, violates + "The disruption budget a needs 3 healthy pods and has 2 currently"},
		{"failed sync", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) {
			b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: "False", Reason: policyv1.SyncFailedReason, Message: "no scale"}}
		})}, violates + "The disruption budget a does not allow evicting pods currently because it failed sync: no scale"},
		{"none left, enough healthy", running, []*policyv1.PodDisruptionBudget{budget("a", healthy(3, 2, ""))}, violates + "The disruption budget a does not allow evicting pods currently"},
		{"none left, enough healthy, with a reason", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) {
			b.Status.CurrentHealthy = 1
			b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: "False", Reason: "Held", Message: "by hand"}}
		})}, violates + "The disruption budget a does not allow evicting pods currently (Held): by hand"},
		{"one left", running, []*policyv1.PodDisruptionBudget{budget("a", allowing(1))}, "spends a: 0 left, InsufficientPods"},
		{"five left", running, []*policyv1.PodDisruptionBudget{budget("a", allowing(5))}, "spends a: 4 left, "},
		{"not observed", running, []*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) { b.Generation, b.Status.DisruptionsAllowed = 3, 5 })}, violates + "The disruption budget a is still being processed by the server."},
		{"negative", running, []*policyv1.PodDisruptionBudget{budget("a", allowing(-1))}, `403 poddisruptionbudget.policy "a" is forbidden: pdb disruptions allowed is negative / The disruption budget a does not allow evicting pods currently: pdb disruptions allowed is negative`},
		{
			"many on their way", running,
			[]*policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptedPods, b.Status.DisruptionsAllowed = many, 1 })},
			`403 poddisruptionbudget.policy "a" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller / ` +
				`The disruption budget a does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller`,
		},
		{"two", running, []*policyv1.PodDisruptionBudget{budget("a", allowing(1)), budget("b", allowing(1))}, "500 This pod has more than one PodDisruptionBudget, which the eviction subresource does not support. / "},
		{"two, finished", pod(corev1.PodFailed, corev1.ConditionFalse), []*policyv1.PodDisruptionBudget{budget("a", nil), budget("b", nil)}, "free"},
		{"succeeded", pod(corev1.PodSucceeded, corev1.ConditionFalse), []*policyv1.PodDisruptionBudget{budget("a", nil)}, "free"},
		{"pending", pod(corev1.PodPending, corev1.ConditionFalse), []*policyv1.PodDisruptionBudget{budget("a", nil)}, "free"},
		{"being deleted", terminating, []*policyv1.PodDisruptionBudget{budget("a", nil)}, "free"},
		{"unready, enough healthy", unready, []*policyv1.PodDisruptionBudget{budget("a", healthy(3, 3, ""))}, "unguarded a"},
		{"unready, enough healthy, by name", unready, []*policyv1.PodDisruptionBudget{budget("a", healthy(3, 3, policyv1.IfHealthyBudget))}, "unguarded a"},
		{"unready, too few healthy", unready, []*policyv1.PodDisruptionBudget{budget("a", healthy(2, 3, ""))}, violates + "The disruption budget a needs 3 healthy pods and has 2 currently"},
		{"unready, none wanted", unready, []*policyv1.PodDisruptionBudget{budget("a", healthy(0, 0, ""))}, violates + "The disruption budget a needs 0 healthy pods and has 0 currently"},
		{"unready, always allowed", unready, []*policyv1.PodDisruptionBudget{budget("a", healthy(0, 3, policyv1.AlwaysAllow))}, "unguarded a"},
		{"ready, always allowed", running, []*policyv1.PodDisruptionBudget{budget("a", healthy(2, 3, policyv1.AlwaysAllow))}, violates + "The disruption budget a needs 3 healthy pods and has 2 currently"},
		{"unready, spends what is left", unready, []*policyv1.PodDisruptionBudget{budget("a", allowing(2))}, "spends a: 1 left, "},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := eviction.Decide(c.pod, c.budgets, noon)
			if text := describe(got); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

func describe(d eviction.Decision) string {
	switch {
	case d.Err != nil:
		var refused apierrors.APIStatus
		_ = errors.As(d.Err, &refused)
		status := refused.Status()
		cause := ""
		if status.Details != nil && len(status.Details.Causes) > 0 {
			cause = status.Details.Causes[0].Message
		}
		return fmt.Sprintf("%d %s / %s", status.Code, status.Message, cause)
	case d.Budget != nil:
		reason := ""
		for _, c := range d.Budget.Status.Conditions {
			reason = c.Reason
		}
		if at := d.Budget.Status.DisruptedPods["web"]; !at.Time.Equal(noon) {
			reason = "not listed"
		}
		return fmt.Sprintf("spends %s: %d left, %s", d.Budget.Name, d.Budget.Status.DisruptionsAllowed, reason)
	case d.Unguarded != "":
		return "unguarded " + d.Unguarded
	}
	return "free"
}

func TestRetryAfter(t *testing.T) {
	running := pod(corev1.PodRunning, corev1.ConditionTrue)
	empty := eviction.Decide(running, []*policyv1.PodDisruptionBudget{budget("a", nil)}, noon).Err
	if seconds, asks := apierrors.SuggestsClientDelay(empty); asks || seconds != 0 {
		t.Errorf("an empty budget asks for %d s", seconds)
	}
	late := eviction.StillProcessing("a")
	if seconds, _ := apierrors.SuggestsClientDelay(late); seconds != 10 || apierrors.ReasonForError(late) != metav1.StatusReasonTooManyRequests {
		t.Errorf("a budget behind asks for %d s", seconds)
	}
	if !apierrors.IsTooManyRequests(empty) {
		t.Error(empty)
	}
}

// TestCondition: the pod says why it ends, and since when; the one asked about is left alone.
func TestCondition(t *testing.T) {
	asked := pod(corev1.PodRunning, corev1.ConditionTrue)
	evicted := eviction.Decide(asked, nil, noon).Pod
	want := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: 3, Reason: "EvictionByEvictionAPI",
		Message: "Eviction API: evicting", LastTransitionTime: metav1.Unix(noon.Unix(), 0),
	}
	if got := evicted.Status.Conditions; len(got) != 2 || got[1] != want {
		t.Errorf("%+v", got)
	}
	if len(asked.Status.Conditions) != 1 {
		t.Error("the pod asked about was changed")
	}
	again := eviction.Decide(evicted, nil, noon.Add(time.Hour)).Pod
	if got := again.Status.Conditions; len(got) != 2 || got[1] != want {
		t.Errorf("a second time: %+v", got)
	}
}
