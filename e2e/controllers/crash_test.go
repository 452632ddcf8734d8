package controllers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// TestCrashes ends the controllers k ms after a rollout has begun, for every k until it is
// over: their messages take a millisecond each way, so that each write is cut off before it
// left, under way, and before its answer came. Each time they come back and converge.
func TestCrashes(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 3, Delay: time.Millisecond}, func(r *rig) {
		r.create("deployments.apps", deployment(3))
		r.create("statefulsets.apps", statefulSet("db", 2))
		r.waitRunning(5)
		for k := range 24 {
			image := fmt.Sprintf("registry.k8s.io/pause:%d", k)
			change := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"` + image + `"}]}}}}`
			r.mergePatch("deployments.apps", "web", change)
			r.mergePatch("statefulsets.apps", "db", change)
			time.Sleep(time.Duration(k) * time.Millisecond)
			r.cluster.Stop("controllers")
			time.Sleep(3 * time.Second)
			r.cluster.Start("controllers")
			r.waitUntil(fmt.Sprintf("crashed after %d ms, all pods are new and ready", k), func() bool {
				pods := r.pods()
				if len(pods) > 10 {
					r.t.Fatalf("crashed after %d ms: %d pods\n%s", k, len(pods), r.describe())
				}
				return len(pods) == 5 && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
					return p.Spec.Containers[0].Image != image || !isReady(p) || p.DeletionTimestamp != nil
				})
			})
			asking := 0
			for _, set := range list[*appsv1.ReplicaSet](r, "replicasets.apps") {
				if *set.Spec.Replicas > 0 {
					asking++
				}
			}
			if asking != 1 {
				r.t.Fatalf("crashed after %d ms: %d ReplicaSets ask for pods", k, asking)
			}
		}
		time.Sleep(time.Minute)
		if n := len(list[*appsv1.ReplicaSet](r, "replicasets.apps")); n != 11 {
			r.t.Errorf("%d ReplicaSets, want the one in use and the 10 of history", n)
		}
		if n := len(list[*appsv1.ControllerRevision](r, "controllerrevisions.apps")); n > 13 {
			r.t.Errorf("%d ControllerRevisions, want about 10", n)
		}
		d := get[*appsv1.Deployment](r, "deployments.apps", "web").Status
		if d.UpdatedReplicas != 3 || d.AvailableReplicas != 3 || d.UnavailableReplicas != 0 || d.CollisionCount != nil {
			r.t.Errorf("status %+v", d)
		}
	})
}
