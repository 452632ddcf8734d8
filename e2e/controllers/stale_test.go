package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/controllers/view"
)

// TestStaleViews shows controllers views that have stood still: what they have asked for is
// not asked for again, and nothing is deleted that is not what it was.
func TestStaleViews(t *testing.T) {
	valve := func() *view.EventGate { return view.NewEventGate(clock.Clock{}) }
	t.Run("ReplicaSet", func(t *testing.T) {
		valved(t, stage.Config{Nodes: 3}, valve, func(r *rig, v *view.EventGate) {
			r.create("deployments.apps", deployment(2))
			r.running(2)
			set := list[*appsv1.ReplicaSet](r, "replicasets.apps")[0].Name
			v.Close("pods")
			r.merge("deployments.apps", "web", `{"spec":{"replicas":6}}`)
			for i := range 20 {
				r.merge("replicasets.apps", set, fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i))
				time.Sleep(time.Second)
				if n := len(r.pods()); n > 6 {
					r.t.Fatalf("%d pods of 6 that are asked for", n)
				}
			}
			r.merge("deployments.apps", "web", `{"spec":{"replicas":3}}`)
			time.Sleep(10 * time.Second)
			v.Open("pods")
			r.running(3)
			// What happened meanwhile is never seen, only what is.
			v.Close("pods")
			for _, pod := range r.pods()[:2] {
				r.remove(pod.Name)
			}
			time.Sleep(time.Minute)
			v.Skip("pods")
			r.running(3)
		})
	})
	t.Run("Deployment", func(t *testing.T) {
		valved(t, stage.Config{Nodes: 3}, valve, func(r *rig, v *view.EventGate) {
			r.create("deployments.apps", deployment(2))
			r.running(2)
			v.Close("replicasets.apps")
			r.merge("deployments.apps", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.k8s.io/pause:3.9"}]}}}}`)
			for i := range 10 {
				r.merge("deployments.apps", "web", fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i))
				time.Sleep(time.Second)
			}
			if sets := list[*appsv1.ReplicaSet](r, "replicasets.apps"); len(sets) != 2 {
				r.t.Errorf("%d ReplicaSets, want the old one and the new one", len(sets))
			}
			v.Open("replicasets.apps")
			r.until("the rollout is done", func() bool {
				d := get[*appsv1.Deployment](r, "deployments.apps", "web").Status
				return d.UpdatedReplicas == 2 && d.Replicas == 2 && d.AvailableReplicas == 2 && len(r.pods()) == 2
			})
			if c := get[*appsv1.Deployment](r, "deployments.apps", "web").Status.CollisionCount; c != nil {
				r.t.Errorf("%d collisions with its own ReplicaSet", *c)
			}
		})
	})
	t.Run("StatefulSet", func(t *testing.T) {
		valved(t, stage.Config{Nodes: 3}, valve, func(r *rig, v *view.EventGate) {
			r.create("statefulsets.apps", statefulSet("db", 3))
			r.running(3)
			v.Delay("pods", 7*time.Second)
			r.cluster.Trace().Take()
			r.merge("statefulsets.apps", "db", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.k8s.io/pause:3.9"}]}}}}`)
			for i := range 120 {
				r.merge("statefulsets.apps", "db", fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i))
				time.Sleep(time.Second)
			}
			made := map[string]int{}
			for _, step := range r.cluster.Trace().Take() {
				if words := strings.Fields(step.Text); step.Actor == "watch" && words[0] == "ADDED" {
					made[words[1]]++
				}
			}
			for _, name := range []string{"db-0", "db-1", "db-2"} {
				if made[name] != 1 {
					r.t.Errorf("%s was made %d times, want once", name, made[name])
				}
			}
			for _, pod := range r.pods() {
				if pod.Spec.Containers[0].Image != "registry.k8s.io/pause:3.9" || !ready(pod) {
					r.t.Errorf("%s is not rolled:\n%s", pod.Name, r.describe())
				}
			}
		})
	})
	t.Run("Job", func(t *testing.T) {
		valved(t, stage.Config{Nodes: 3}, valve, func(r *rig, v *view.EventGate) {
			v.Delay("pods", 4*time.Second)
			r.create("jobs.batch", job("sum", "exits 0 after 3s", 8, 3))
			most := 0
			r.until("complete", func() bool {
				running := 0
				for _, pod := range r.pods() {
					if pod.Status.Phase != corev1.PodSucceeded {
						running++
					}
				}
				most = max(most, running)
				kind, _ := over(r)
				return kind != ""
			})
			if n := len(r.pods()); n != 8 || most > 3 {
				r.t.Errorf("%d pods, %d at once; want 8, and 3 at most", n, most)
			}
		})
	})
	t.Run("DaemonSet", func(t *testing.T) {
		valved(t, stage.Config{Nodes: 3}, valve, func(r *rig, v *view.EventGate) {
			v.Close("pods")
			r.create("daemonsets.apps", daemonSet("agent"))
			for i := range 10 {
				r.merge("daemonsets.apps", "agent", fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i))
				time.Sleep(time.Second)
			}
			if n := len(r.pods()); n != 3 {
				r.t.Errorf("%d pods on 3 nodes", n)
			}
			v.Open("pods")
			r.running(3)
		})
	})
}
