package controllers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, ServiceName: name, Selector: selector(name), Template: template(name, "")},
	}
}

// TestOneOfEachName is TRC-19: no second web-0 until the first is gone.
func TestOneOfEachName(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 3}, func(r *rig) {
		r.create("statefulsets.apps", statefulSet("web", 3))
		r.waitRunning(3)
		// One after the other.
		var made []time.Time
		for i := range 3 {
			made = append(made, get[*corev1.Pod](r, "pods", fmt.Sprintf("web-%d", i)).CreationTimestamp.Time)
		}
		if !made[0].Before(made[1]) || !made[1].Before(made[2]) {
			r.t.Errorf("made at %v, want one after the other", made)
		}
		old := get[*corev1.Pod](r, "pods", "web-0").UID
		r.deletePod("web-0")
		r.cluster.Trace().Take()
		r.waitUntil("another web-0", func() bool {
			for _, pod := range r.pods() {
				if pod.Name == "web-0" && pod.UID != old {
					return true
				}
			}
			return false
		})
		var seen []string
		for _, step := range r.cluster.Trace().Take() {
			if step.Actor == "watch" && (len(step.Text) > 5) && (step.Text[:5] == "ADDED" || step.Text[:7] == "DELETED") {
				seen = append(seen, step.Text[:14])
			}
		}
		if want := []string{"DELETED  web-0", "ADDED    web-0"}; !slices.Equal(seen, want) {
			r.t.Errorf("seen %q, want %q", seen, want)
		}
		r.waitRunning(3)
	})
}

// TestStatefulRollingUpdate goes from the highest ordinal to the partition.
func TestStatefulRollingUpdate(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 3}, func(r *rig) {
		r.create("statefulsets.apps", statefulSet("web", 3))
		r.waitRunning(3)
		images := func() string {
			text := ""
			for _, pod := range r.pods() {
				text += pod.Spec.Containers[0].Image[len("registry.k8s.io/pause:"):] + " "
			}
			return text
		}
		r.mergePatch("statefulsets.apps", "web", `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}},"template":{"spec":{"containers":[{"name":"main","image":"registry.k8s.io/pause:3.9"}]}}}}`)
		r.waitUntil("rolled to the partition", func() bool { return images() == "3.10 3.9 3.9 " })
		r.waitRunning(3)
		time.Sleep(time.Minute)
		set := get[*appsv1.StatefulSet](r, "statefulsets.apps", "web")
		if set.Status.CurrentReplicas != 1 || set.Status.UpdatedReplicas != 2 || set.Status.CurrentRevision == set.Status.UpdateRevision {
			r.t.Errorf("status %+v", set.Status)
		}
		r.mergePatch("statefulsets.apps", "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
		r.waitUntil("rolled", func() bool { return images() == "3.9 3.9 3.9 " })
		r.waitRunning(3)
		r.waitUntil("the new revision is the current one", func() bool {
			set := get[*appsv1.StatefulSet](r, "statefulsets.apps", "web")
			return set.Status.CurrentRevision == set.Status.UpdateRevision && set.Status.CurrentReplicas == 3
		})
	})
}

// TestLostNode has a StatefulSet's pod on a node that goes silent: it stays the only one of
// its name until somebody forces it away.
func TestLostNode(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 2}, func(r *rig) {
		r.create("statefulsets.apps", statefulSet("web", 1))
		r.waitRunning(1)
		first := r.pods()[0]
		r.cluster.Cut(first.Spec.NodeName)
		r.deletePod("web-0")
		time.Sleep(30 * time.Minute)
		if pods := r.pods(); len(pods) != 1 || pods[0].UID != first.UID {
			r.t.Fatalf("without a forced delete there is another:\n%s", r.describe())
		}
		target := r.target("pods", "web-0")
		if _, err := r.api.Delete(r.t.Context(), target, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			r.t.Fatal(err)
		}
		r.waitUntil("another web-0", func() bool { pods := r.pods(); return len(pods) == 1 && pods[0].UID != first.UID })
	})
}
