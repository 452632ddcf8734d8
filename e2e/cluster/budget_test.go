package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// serviceCluster configures a cluster with ReplicaSets, budgets and endpoints.
func serviceCluster() stage.Config {
	return stage.Config{Controllers: []string{
		"scheduler", "disruption", "endpointslice", "endpoint", "replicaset", "garbagecollector",
	}}
}

func labelled(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

func describeBudget(obj kinds.Object, _ watch.EventType) string {
	budget, ok := obj.(*policyv1.PodDisruptionBudget)
	if !ok {
		return ""
	}
	s := budget.Status
	text := fmt.Sprintf("budget allows %d: %d healthy of %d, needs %d", s.DisruptionsAllowed, s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy)
	for name := range s.DisruptedPods {
		text += ", expects " + name + " to go"
	}
	return text
}

// describeEndpoints describes the pods behind a service: r for ready, s for serving, t for
// terminating.
func describeEndpoints(obj kinds.Object, _ watch.EventType) string {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return ""
	}
	var texts []string
	for _, e := range slice.Endpoints {
		text := strings.TrimRight(e.TargetRef.Name, "bcdfghjklmnpqrstvwxz2456789") + ":"
		for letter, on := range map[string]*bool{"r": e.Conditions.Ready, "s": e.Conditions.Serving, "t": e.Conditions.Terminating} {
			if *on {
				text += letter
			}
		}
		head, letters, _ := strings.Cut(text, ":")
		sorted := strings.Split(letters, "")
		slices.Sort(sorted)
		texts = append(texts, head+":"+strings.Join(sorted, ""))
	}
	slices.Sort(texts)
	return "slice [" + strings.Join(texts, " ") + "]"
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
}

// evict requests a pod's eviction and returns the answer.
func (r *rig) evict(name string) error {
	_, err := r.API().Create(r.Context(), r.target("pods/eviction "+name), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
	}, metav1.CreateOptions{})
	return err
}

// TestTRC17 evicts a pod that its budget allows to go.
func TestTRC17(t *testing.T) {
	play(t, serviceCluster(), func(r *rig) {
		for i := range 3 {
			r.runPod(fmt.Sprintf("web-%d", i), labelled)
		}
		r.create("poddisruptionbudgets.policy", budget("2"))
		r.watch("poddisruptionbudgets.policy", describeBudget)
		r.watch("pods", describePod)
		r.resetNotes()
		if err := r.evict("web-0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      budget allows 0: 2 healthy of 3, needs 2`,
			`? 0s      budget allows 0: 2 healthy of 3, needs 2, expects web-0 to go`,
			`0s      budget allows 0: 3 healthy of 3, needs 2, expects web-0 to go`,
			`0s      pod web-0 Running Ready=True DisruptionTarget=True EvictionByEvictionAPI`,
			`0s      pod web-0 Running Ready=True DisruptionTarget=True EvictionByEvictionAPI terminating, grace 30`,
			`1s      pod web-0 Succeeded Ready=False DisruptionTarget=True EvictionByEvictionAPI terminating, grace 30`,
			`1.9s    budget allows 0: 2 healthy of 2, needs 2`,
			`1.9s    pod web-0 Succeeded Ready=False DisruptionTarget=True EvictionByEvictionAPI terminating, grace 0`,
			`1.9s    pod web-0 is gone`,
		)
	})
}

func budget(minimum string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.Parse(minimum)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
}

// TestDrain evicts all pods of a ReplicaSet from a node as kubectl drain does. Those that the
// budget protects are refused with 429 and retried 5 s later (TD-134).
func TestDrain(t *testing.T) {
	play(t, serviceCluster(), func(r *rig) {
		r.create("poddisruptionbudgets.policy", budget("2"))
		r.create("replicasets.apps", replicas(3))
		ready := func() int {
			count := 0
			for _, obj := range r.list("pods default/") {
				if p, ok := obj.(*corev1.Pod); ok && p.DeletionTimestamp == nil && strings.Contains(describePod(p, watch.Modified), "Ready=True") {
					count++
				}
			}
			return count
		}
		r.until("three run", func() bool { return ready() == 3 })
		for _, node := range []string{"node-1", "node-2"} {
			r.cordon(node)
		}
		refused := 0
		for _, obj := range r.list("pods default/") {
			if p, ok := obj.(*corev1.Pod); !ok || p.Spec.NodeName == "node-3" {
				continue
			}
			for r.evictOr429(obj.GetName()) {
				refused++
				time.Sleep(5 * time.Second)
			}
			if n := ready(); n < 2 {
				t.Errorf("%d pods are ready, and the budget wants 2", n)
			}
		}
		r.until("three run on node-3", func() bool { return ready() == 3 })
		for _, obj := range r.list("pods default/") {
			if p, ok := obj.(*corev1.Pod); ok && p.DeletionTimestamp == nil && p.Spec.NodeName != "node-3" {
				t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
			}
		}
		if refused == 0 {
			t.Error("no eviction was refused")
		}
	})
}

// evictOr429 reports whether the budget refuses the eviction.
func (r *rig) evictOr429(name string) bool {
	r.Helper()
	err := r.evict(name)
	if err != nil && !apierrors.IsTooManyRequests(err) {
		r.Fatal(err)
	}
	return err != nil
}

func replicas(count int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &count, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: pod("", "").Spec},
		},
	}
}

// TestEvictionWithoutDelete evicts a pod without a following delete: the budget counts the pod as
// kept after two minutes (CTL-52).
func TestEvictionWithoutDelete(t *testing.T) {
	play(t, serviceCluster(), func(r *rig) {
		r.runPod("web-0", labelled)
		r.create("poddisruptionbudgets.policy", budget("0"))
		r.watch("poddisruptionbudgets.policy", describeBudget)
		r.watch("pods", describePod)
		r.noteEvents("NotDeleted")
		r.resetNotes()
		r.patch("pods/status web-0", map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.Now()},
		}}})
		r.patch("poddisruptionbudgets.policy/status web", map[string]any{"status": map[string]any{
			"disruptedPods": map[string]any{"web-0": metav1.Now()}, "disruptionsAllowed": 0,
		}})
		time.Sleep(5 * time.Minute)
		r.wantNotes(
			`0s      budget allows 0: 0 healthy of 1, needs 0, expects web-0 to go`,
			`0s      budget allows 0: 1 healthy of 1, needs 0, expects web-0 to go`,
			`0s      pod web-0 Running Ready=True DisruptionTarget=True EvictionByEvictionAPI`,
			`1m59.8s budget allows 1: 1 healthy of 1, needs 0`,
			`1m59.8s event Warning Pod/web-0 NotDeleted: Pod was expected by PDB default/web to be deleted but it wasn't (controllermanager)`,
			`1m59.8s pod web-0 Running Ready=True DisruptionTarget=False`,
		)
	})
}

// TestTRC18 deletes the only pod of a ReplicaSet: its successor exists at once, and the endpoints
// show the old pod as terminating (CTL-50).
func TestTRC18(t *testing.T) {
	play(t, serviceCluster(), func(r *rig) {
		r.create("services", service())
		r.create("replicasets.apps", replicas(1))
		r.until("it runs", func() bool {
			pods := r.list("pods default/")
			return len(pods) == 1 && strings.Contains(describePod(pods[0], watch.Modified), "Ready=True")
		})
		slow := r.list("pods default/")[0].GetName()
		r.watch("endpointslices.discovery.k8s.io", describeEndpoints)
		r.resetNotes()
		r.delete("pods "+slow, metav1.DeleteOptions{})
		r.Settle()
		time.Sleep(5 * time.Millisecond)
		if n := len(r.list("pods default/")); n != 2 {
			t.Errorf("%d pods 5 ms after the delete, want the old one and its successor", n)
		}
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      slice [web-:st]`,
			`900ms   slice [web-:rs web-:st]`,
			`1s      slice [web-:rs]`,
		)
	})
}

// TestTRC19 deletes web-0 of a StatefulSet: its successor is created only once it is gone.
func TestTRC19(t *testing.T) {
	play(t, stage.Config{Controllers: []string{"scheduler", "statefulset"}}, func(r *rig) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		set.Spec.Selector, set.Spec.Template = replicas(1).Spec.Selector, replicas(1).Spec.Template
		r.create("statefulsets.apps", set)
		r.until("it runs", func() bool {
			p := get[*corev1.Pod](r, "pods web-0")
			return p != nil && strings.Contains(describePod(p, watch.Modified), "Ready=True")
		})
		r.watch("pods", func(obj kinds.Object, kind watch.EventType) string {
			switch {
			case kind == watch.Deleted:
				return "the old web-0 is gone"
			case kind == watch.Added:
				return "a new web-0"
			case obj.GetDeletionTimestamp() != nil:
				return "the old web-0 terminates"
			}
			return ""
		})
		r.resetNotes()
		r.delete("pods web-0", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      the old web-0 terminates`,
			`1.9s    a new web-0`,
			`1.9s    the old web-0 is gone`,
		)
	})
}
