package controllers

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// createManifest creates the object of a file of testdata.
func createManifest[T kinds.Object](r *rig, file, resource string, into T, edits ...func(T)) {
	r.t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		r.t.Fatal(err)
	}
	for _, edit := range edits {
		edit(into)
	}
	r.create(resource, into)
}

// TestArticle000 deletes the pod of a Deployment whose strategy is Recreate, as article 000
// does: the replacement is there as soon as the old pod terminates, and goes through Pending,
// ContainerCreating, Running 0/1 and Running 1/1.
func TestArticle000(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 2, Controllers: []string{"*"}}, func(r *rig) {
		createManifest(r, "minio-standalone-pvc.yaml", "persistentvolumeclaims", &corev1.PersistentVolumeClaim{})
		createManifest(r, "minio-standalone-service.yaml", "services", &corev1.Service{})
		createManifest(r, "minio-standalone-deployment.yaml", "deployments.apps", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
			// One claim is one node's, where the port would be taken for as long as the
			// old pod is there: the article's cluster had no such port.
			container := &d.Spec.Template.Spec.Containers[0]
			container.Ports[0].HostPort = 0
			container.ReadinessProbe = &corev1.Probe{
				InitialDelaySeconds: 13, PeriodSeconds: 10,
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9000)}},
			}
			d.Spec.Template.Annotations = map[string]string{"script.podfall.io/minio": "on TERM exits 0 after 2s, starts after 16s"}
		})
		r.waitRunning(1)
		old := r.pods()[0].Name
		time.Sleep(time.Minute)
		r.cluster.Trace().Take()
		r.deletePod(old)
		r.waitRunning(1)
		fresh := r.pods()[0].Name
		var seen []string
		for _, step := range r.cluster.Trace().Take() {
			if step.Actor != "watch" {
				continue
			}
			words := strings.Fields(step.Text) // MODIFIED name 0/1 Pending gen=…
			line := fmt.Sprintf("%s %s %s", map[string]string{old: "old", fresh: "new"}[words[1]], words[2], words[3])
			if words[0] == "DELETED" {
				line = "old gone"
			}
			if !slices.Contains(seen, line) {
				seen = append(seen, line)
			}
		}
		want := []string{
			"old 1/1 Terminating", "new 0/1 Pending", "new 0/1 ContainerCreating", "old 0/1 Completed", "old gone",
			"new 0/1 Running", "new 1/1 Running",
		}
		if !slices.Equal(seen, want) {
			r.t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestRecreate has no new pod before the last old one has ended when the template changes
// (CTL-31).
func TestRecreate(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 2}, func(r *rig) {
		d := deployment(3)
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		d.Spec.Template.Annotations = map[string]string{"script.podfall.io/main": "on TERM exits 0 after 7s"}
		r.create("deployments.apps", d)
		r.waitRunning(3)
		r.mergePatch("deployments.apps", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.k8s.io/pause:3.9"}]}}}}`)
		r.waitUntil("all pods are new", func() bool {
			images := map[string]int{}
			fresh := 0
			for _, pod := range r.pods() {
				if pod.Status.Phase != corev1.PodSucceeded {
					images[pod.Spec.Containers[0].Image]++
				}
				if pod.Spec.Containers[0].Image == "registry.k8s.io/pause:3.9" {
					fresh++
				}
			}
			if len(images) > 1 {
				r.t.Fatalf("old and new pods at once:\n%s", r.describe())
			}
			return fresh == 3
		})
		r.waitRunning(3)
	})
}

// TestScaleDown takes away the pod of low cost, then those that are not ready.
func TestScaleDown(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 3}, func(r *rig) {
		r.create("deployments.apps", deployment(5))
		r.waitRunning(5)
		cheap := r.pods()[3].Name
		r.mergePatch("pods", cheap, `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-100"}}}`)
		r.mergePatch("deployments.apps", "web", `{"spec":{"replicas":4}}`)
		r.waitUntil("one goes", func() bool {
			for _, pod := range r.pods() {
				if pod.DeletionTimestamp != nil && pod.Name != cheap {
					r.t.Fatalf("%s goes, want %s", pod.Name, cheap)
				}
			}
			return len(r.pods()) == 4
		})
		if said := r.eventTexts("web"); said[len(said)-1][:len("ScalingReplicaSet: Scaled down")] != "ScalingReplicaSet: Scaled down" {
			r.t.Errorf("events %q", said)
		}
		r.mergePatch("deployments.apps", "web", `{"spec":{"replicas":0}}`)
		r.waitUntil("none is left", func() bool { return len(r.pods()) == 0 })
		if d := get[*appsv1.Deployment](r, "deployments.apps", "web"); d.Status.Replicas != 0 {
			r.t.Errorf("status %+v", d.Status)
		}
	})
}
