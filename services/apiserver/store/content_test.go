package store_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver/store"
)

// TestCommitsTellWhatHolds has a commit tell which owners its object blocks, and what an eviction
// goes by.
func TestCommitsTellWhatHolds(t *testing.T) {
	s := open(t, config(t))
	pod := small("web", "n1")
	pod.OwnerReferences = []metav1.OwnerReference{
		{UID: "silent"}, {UID: "blocked", BlockOwnerDeletion: new(true)}, {UID: "free", BlockOwnerDeletion: new(false)},
	}
	told := put(t, s, write(pod, store.Absent))[0].Fact()
	if len(told.Blocks) != 1 || told.Blocks[0] != "blocked" || told.Budget != nil {
		t.Errorf("a pod is told to block %v, with the budget %v; want the owner that it blocks, and no budget", told.Blocks, told.Budget)
	}

	always := policyv1.AlwaysAllow
	counted := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 4, DisruptionsAllowed: 3, CurrentHealthy: 2, DesiredHealthy: 1}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		policy   *policyv1.UnhealthyPodEvictionPolicyType
		want     history.Budget
	}{
		"web":   {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, &always, history.Budget{Selector: "app=web", AlwaysAllow: true}},
		"all":   {&metav1.LabelSelector{}, nil, history.Budget{All: true}},
		"none":  {nil, nil, history.Budget{}},
		"wrong": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}, nil, history.Budget{}},
	} {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: c.selector, UnhealthyPodEvictionPolicy: c.policy}, Status: counted,
		}
		key := store.Key{Resource: "poddisruptionbudgets.policy", Namespace: "default", Name: name}
		told := put(t, s, store.Write{Key: key, Expect: store.Absent, Object: budget})[0].Fact().Budget
		c.want.Observed, c.want.Allowed, c.want.Healthy, c.want.Desired = 4, 3, 2, 1
		if told == nil || *told != c.want {
			t.Errorf("%s: %+v, want %+v", name, told, c.want)
		}
	}
}

// TestCommitsTellOfSidecars has a commit tell which containers a pod's sidecars are to outlive.
// Ordinary init containers are neither.
func TestCommitsTellOfSidecars(t *testing.T) {
	s := open(t, config(t))
	pod := small("web", "n1")
	pod.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "other"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	if told := put(t, s, write(pod, store.Absent))[0].Fact(); told.Sidecars != nil || told.Regular != nil {
		t.Errorf("a pod without sidecars has %v, which are to outlive %v", told.Sidecars, told.Regular)
	}
	pod = small("mesh", "n1")
	pod.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "other"}}
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "first", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Name: "init"}, {Name: "second", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
	told := put(t, s, write(pod, store.Absent))[0].Fact()
	if !slices.Equal(told.Sidecars, []string{"first", "second"}) || !slices.Equal(told.Regular, []string{"main", "other"}) {
		t.Errorf("the sidecars %v are to outlive %v, want first and second to outlive main and other", told.Sidecars, told.Regular)
	}
}
