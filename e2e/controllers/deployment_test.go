package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// TestReplacementAtOnce is TRC-18: the replacement comes with the mark of the old pod, not
// with its end.
func TestReplacementAtOnce(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 1}, func(r *rig) {
		r.create("deployments.apps", deployment(1))
		r.waitRunning(1)
		old := r.pods()[0]
		if !strings.HasPrefix(old.Name, "web-") || strings.Count(old.Name, "-") != 2 {
			r.t.Errorf("a pod is called %s, want web-HASH-SUFFIX", old.Name)
		}
		r.deletePod(old.Name)
		took := r.waitUntil("a second pod", func() bool { return len(r.pods()) == 2 })
		if took > 100*time.Millisecond {
			r.t.Errorf("the replacement took %v", took)
		}
		set := list[*appsv1.ReplicaSet](r, "replicasets.apps")[0]
		if set.Status.Replicas != 1 || set.Status.TerminatingReplicas == nil || *set.Status.TerminatingReplicas != 1 {
			r.t.Errorf("status %+v, want one replica and one terminating", set.Status)
		}
		r.waitRunning(1)
		if r.pods()[0].UID == old.UID {
			r.t.Error("the old pod is back")
		}
	})
}

// TestRollingUpdate rolls a template out and back, with never more nor fewer pods than
// asked for.
func TestRollingUpdate(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 3}, func(r *rig) {
		r.create("deployments.apps", deployment(4))
		r.waitRunning(4)
		r.waitUntil("the rollout is said to be done", func() bool {
			return conditionReason(r, "web", appsv1.DeploymentProgressing) == "NewReplicaSetAvailable"
		})
		for revision, image := range []string{"registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10"} {
			r.mergePatch("deployments.apps", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+image+`"}]}}}}`)
			r.waitUntil("all pods are new", func() bool {
				var counted, available int
				all := r.pods()
				for _, pod := range all {
					if pod.DeletionTimestamp == nil {
						counted++
						if isReady(pod) {
							available++
						}
					}
				}
				if counted > 5 || available < 3 {
					r.t.Fatalf("%d pods and %d available, want at most 5 and at least 3:\n%s", counted, available, r.describe())
				}
				return len(all) == 4 && available == 4 && !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image != image })
			})
			got := get[*appsv1.Deployment](r, "deployments.apps", "web").Annotations["deployment.kubernetes.io/revision"]
			if want := []string{"2", "3"}[revision]; got != want {
				r.t.Errorf("revision %s, want %s", got, want)
			}
		}
		if sets := list[*appsv1.ReplicaSet](r, "replicasets.apps"); len(sets) != 2 {
			r.t.Errorf("%d ReplicaSets, want 2: the roll back takes the first one again", len(sets))
		}
		if said := r.eventTexts("web"); len(said) < 3 || !strings.HasPrefix(said[0], "ScalingReplicaSet: Scaled up replica set web-") || !strings.HasSuffix(said[0], " from 0 to 4") {
			r.t.Errorf("events %q", said)
		}
	})
}

func conditionReason(r *rig, name string, kind appsv1.DeploymentConditionType) string {
	for _, condition := range get[*appsv1.Deployment](r, "deployments.apps", name).Status.Conditions {
		if condition.Type == kind {
			return condition.Reason
		}
	}
	return ""
}
