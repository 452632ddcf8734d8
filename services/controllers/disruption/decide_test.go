package disruption

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var origin = time.Unix(1_700_000_000, 0)

// podsOf reads "a b- c~": a ready, b not ready, c terminating.
func podsOf(text string) []*corev1.Pod {
	var pods []*corev1.Pod
	for word := range strings.FieldsSeq(text) {
		name := strings.TrimRight(word, "-~")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}}
		if strings.HasSuffix(word, "-") {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		if strings.HasSuffix(word, "~") {
			pod.DeletionTimestamp = &metav1.Time{Time: origin}
		}
		pods = append(pods, pod)
	}
	return pods
}

func TestDecide(t *testing.T) {
	for _, row := range []struct {
		pods           string
		scale          int32 // 0: no controller
		minimum, most  string
		evicted        map[string]time.Duration
		want           string
		kept, rechecks string
	}{
		{pods: "a b c", minimum: "2", want: "allowed=1 healthy=3 desired=2 expected=3"},
		{pods: "a b- c", minimum: "2", want: "allowed=0 healthy=2 desired=2 expected=3"},
		{pods: "a b c~", minimum: "2", want: "allowed=0 healthy=2 desired=2 expected=3"}, // CTL-52
		{pods: "a", minimum: "2", want: "allowed=0 healthy=1 desired=2 expected=1"},
		{pods: "", minimum: "0", want: "allowed=0 healthy=0 desired=0 expected=0"},
		{pods: "a b c", scale: 5, minimum: "50%", want: "allowed=0 healthy=3 desired=3 expected=5"},
		{pods: "a b c", scale: 3, most: "1", want: "allowed=1 healthy=3 desired=2 expected=3"},
		{pods: "a b c", scale: 3, most: "34%", want: "allowed=2 healthy=3 desired=1 expected=3"},
		{pods: "a b c", scale: 3, most: "9", want: "allowed=3 healthy=3 desired=0 expected=3"},
		{pods: "a b", most: "1", want: "allowed=0 healthy=2 desired=0 expected=0"}, // unmanaged pods
		{
			pods: "a b c", minimum: "1", evicted: map[string]time.Duration{"a": 0, "gone": 0},
			want: "allowed=1 healthy=2 desired=1 expected=3 disrupted=a", rechecks: "2m0s",
		},
		{
			pods: "a b c", minimum: "1", evicted: map[string]time.Duration{"a": -121 * time.Second, "b": -60 * time.Second},
			want: "allowed=1 healthy=2 desired=1 expected=3 disrupted=b", kept: "a", rechecks: "1m0s",
		},
		{
			pods: "a b c", minimum: "1", evicted: map[string]time.Duration{"b": 24 * time.Hour},
			want: "allowed=1 healthy=2 desired=1 expected=3 disrupted=b", rechecks: "2m0s",
		},
		{pods: "a~ b c", minimum: "1", evicted: map[string]time.Duration{"a": 0}, want: "allowed=1 healthy=2 desired=1 expected=3"},
	} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 3}}
		if row.minimum != "" {
			budget.Spec.MinAvailable = new(intstr.Parse(row.minimum))
		} else {
			budget.Spec.MaxUnavailable = new(intstr.Parse(row.most))
		}
		for name, ago := range row.evicted {
			if budget.Status.DisruptedPods == nil {
				budget.Status.DisruptedPods = map[string]metav1.Time{}
			}
			budget.Status.DisruptedPods[name] = metav1.NewTime(origin.Add(ago))
		}
		view := View{Budget: budget, Pods: podsOf(row.pods), Scales: map[types.UID]Scale{}}
		if row.scale > 0 {
			for _, pod := range view.Pods {
				view.Scales[pod.UID] = Scale{Controller: "rs", Replicas: row.scale}
			}
		}
		got := Decide(view, origin)
		s := got.Status
		text := fmt.Sprintf("allowed=%d healthy=%d desired=%d expected=%d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods)
		for name := range s.DisruptedPods {
			text += " disrupted=" + name
		}
		kept, rechecks := "", ""
		for _, pod := range got.NotDeleted {
			kept += pod.Name
		}
		if !got.RecheckAt.IsZero() {
			rechecks = got.RecheckAt.Sub(origin).String()
		}
		if text != row.want || kept != row.kept || rechecks != row.rechecks {
			t.Errorf("%+v: %s, kept %q, recheck %q", row, text, kept, rechecks)
		}
		if s.ObservedGeneration != 3 || len(s.Conditions) != 1 || (s.Conditions[0].Status == "True") != (s.DisruptionsAllowed > 0) {
			t.Errorf("%+v: %+v", row, s)
		}
		budget.Status = s
		if again := Decide(view, origin.Add(time.Second)); again.Changed {
			t.Errorf("%+v: the same status is written again: %+v", row, again.Status)
		}
	}
}

func TestUnknownController(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}}
	budget.Status.DisruptionsAllowed = 4
	got := Decide(View{Budget: budget, Pods: podsOf("a"), Unknown: []string{"a"}}, origin)
	if got.Err == nil || !got.Changed || got.Status.DisruptionsAllowed != 0 || got.Status.Conditions[0].Reason != "SyncFailed" ||
		got.Status.Conditions[0].Message != `found no controllers for pod "a"` {
		t.Errorf("%+v", got)
	}
}

func TestStaleAt(t *testing.T) {
	target := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(origin)}
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{target}}}
	if got := StaleAt(pod); !got.Equal(origin.Add(2 * time.Minute)) {
		t.Errorf("stale at %v", got)
	}
	never := map[string]func(*corev1.Pod){
		"deleted":    func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: origin} },
		"terminal":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"by kubelet": func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonTerminationByKubelet },
		"false":      func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
	}
	for name, change := range never {
		other := pod.DeepCopy()
		change(other)
		if got := StaleAt(other); !got.IsZero() {
			t.Errorf("%s: stale at %v", name, got)
		}
	}
}
