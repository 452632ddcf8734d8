package deployment

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/controllers/view"
)

// looked is which Deployments a change has looked at, where web is the only one there is, of a
// strategy, and new its set.
func looked(strategy appsv1.DeploymentStrategyType, change func(ChangeHandler)) (names []string) {
	web := d(1, 1, 0)
	web.Spec.Strategy.Type = strategy
	change(ChangeHandler{
		Deployment:    func(key view.Key) (*appsv1.Deployment, bool) { return web, key.Name == web.Name },
		DeploymentsIn: func(string) []*appsv1.Deployment { return []*appsv1.Deployment{web} },
		ReplicaSet: func(key view.Key) (*appsv1.ReplicaSet, bool) {
			return owned(rs(web, "new", 1, 1, 1), "Deployment", "web"), key.Name == "new"
		},
		Enqueue: func(key view.Key) { names = append(names, key.Name) },
	})
	return names
}

func owned[T metav1.Object](obj T, kind, by string) T {
	obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: by, Controller: new(true)}})
	return obj
}

func TestWatch(t *testing.T) {
	set := func() *appsv1.ReplicaSet { return rs(d(1, 1, 0), "new", 1, 1, 1) }
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		return owned(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}, "ReplicaSet", "new")
	}
	labeled := set()
	labeled.Labels = map[string]string{"app": "web"}
	const recreate, rolling = appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType
	for _, c := range []struct {
		name     string
		strategy appsv1.DeploymentStrategyType
		change   func(ChangeHandler)
		want     []string
	}{
		{"a set of its own", rolling, func(w ChangeHandler) { w.SetChanged(nil, owned(set(), "Deployment", "web")) }, []string{"web"}},
		{"one that has gone", rolling, func(w ChangeHandler) { w.SetChanged(owned(set(), "Deployment", "web"), nil) }, []string{"web"}},
		{"one that it has let go of", rolling, func(w ChangeHandler) { w.SetChanged(owned(set(), "Deployment", "web"), set()) }, []string{"web"}},
		{"one that it may adopt", rolling, func(w ChangeHandler) { w.SetChanged(nil, labeled) }, []string{"web"}},
		{"one that it does not select", rolling, func(w ChangeHandler) { w.SetChanged(nil, set()) }, nil},
		{"one of another kind of owner", rolling, func(w ChangeHandler) { w.SetChanged(nil, owned(set(), "Rollout", "web")) }, nil},
		{"a pod that has gone, for which it waits", recreate, func(w ChangeHandler) { w.PodChanged(pod(corev1.PodRunning), nil) }, []string{"web"}},
		{"a pod that is over", recreate, func(w ChangeHandler) { w.PodChanged(pod(corev1.PodRunning), pod(corev1.PodFailed)) }, []string{"web"}},
		{"a pod that goes on", recreate, func(w ChangeHandler) { w.PodChanged(pod(corev1.PodRunning), pod(corev1.PodRunning)) }, nil},
		{"a pod for which nobody waits", rolling, func(w ChangeHandler) { w.PodChanged(pod(corev1.PodRunning), nil) }, nil},
	} {
		if got := looked(c.strategy, c.change); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are looked at, want %v", c.name, got, c.want)
		}
	}
}
