package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

func daemonSet(name string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(name), Template: template(name, "on TERM exits 0 after 5s")},
	}
}

// TestDaemonSet has a pod on each node, one that comes back after the old one is gone
// (CTL-34), and a rolling update.
func TestDaemonSet(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 3}, func(r *rig) {
		r.create("daemonsets.apps", daemonSet("agent"))
		r.waitRunning(3)
		nodes := map[string]int{}
		for _, pod := range r.pods() {
			nodes[pod.Spec.NodeName]++
		}
		if len(nodes) != 3 {
			t.Errorf("pods on %v, want one on each of 3 nodes", nodes)
		}
		old := r.pods()[0]
		r.deletePod(old.Name)
		r.waitUntil("the old one is gone", func() bool {
			gone := true
			on := 0
			for _, pod := range r.pods() {
				if pod.UID == old.UID {
					gone = false
				}
				if pod.Spec.NodeName == old.Spec.NodeName || len(r.pods()) > 3 {
					on++
				}
			}
			if !gone && on > 1 {
				r.t.Fatalf("another pod while the old one terminates:\n%s", r.describe())
			}
			return gone
		})
		r.waitRunning(3)
		r.mergePatch("daemonsets.apps", "agent", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.k8s.io/pause:3.9"}]}}}}`)
		r.waitUntil("all pods are new", func() bool {
			missing := 3
			fresh := 0
			for _, pod := range r.pods() {
				if pod.DeletionTimestamp == nil && isReady(pod) {
					missing--
				}
				if pod.Spec.Containers[0].Image == "registry.k8s.io/pause:3.9" {
					fresh++
				}
			}
			if missing > 1 {
				r.t.Fatalf("%d nodes without a pod, want 1 at most:\n%s", missing, r.describe())
			}
			return fresh == 3
		})
		r.waitRunning(3)
		r.waitUntil("the status says so", func() bool {
			s := get[*appsv1.DaemonSet](r, "daemonsets.apps", "agent").Status
			return s.UpdatedNumberScheduled == 3 && s.NumberAvailable == 3 && s.NumberUnavailable == 0
		})
	})
}
