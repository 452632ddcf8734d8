package cluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// The controllers of this file see too little or too late (faults.md, 33). None of them does
// what cannot be undone.

// TestStaleNodes hides an existing node from podgc: its pods stay.
func TestStaleNodes(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Controllers: []string{"podgc"}}, func(r *rig) {
		r.valve.Close("nodes")
		r.create("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
		r.create("pods", pod("web", "late"))
		time.Sleep(5 * time.Minute)
		if p := get[*corev1.Pod](r, "pods web"); p == nil || p.Status.Phase == corev1.PodFailed {
			t.Fatal("a pod went whose node is there")
		}
		r.valve.Open("nodes")
		time.Sleep(5 * time.Minute)
		r.delete("nodes late", metav1.DeleteOptions{})
		r.until("the pod goes with its node", func() bool { return get[*corev1.Pod](r, "pods web") == nil })
	})
}

// TestStaleSlices hides the controller's own slices from it: it creates no second one.
func TestStaleSlices(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Controllers: []string{"endpointslice"}}, func(r *rig) {
		r.valve.Close("endpointslices.discovery.k8s.io")
		r.create("services", service())
		for i := range 5 {
			r.runPod(fmt.Sprintf("web-%d", i), labelled)
		}
		time.Sleep(time.Minute)
		if n := len(r.list("endpointslices.discovery.k8s.io default/")); n != 1 {
			t.Errorf("%d slices while the view is stale, want 1", n)
		}
		r.valve.Skip("endpointslices.discovery.k8s.io")
		r.until("all pods are in it", func() bool {
			slices := r.list("endpointslices.discovery.k8s.io default/")
			return len(slices) == 1 && describeEndpoints(slices[0], "") == "slice [web-0:rs web-1:rs web-3:rs web-:rs web-:rs]"
		})
	})
}

// TestStalePods hides from pvc-protection the pod that uses a claim.
func TestStalePods(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Controllers: []string{"pvc-protection"}}, func(r *rig) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		r.create("persistentvolumeclaims", claim)
		r.until("it is protected", func() bool {
			return len(get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims data").Finalizers) > 0
		})
		r.valve.Close("pods")
		r.create("pods", pod("web", "node-1", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		}))
		r.delete("persistentvolumeclaims data", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		if get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims data") == nil {
			t.Fatal("a claim went that is in use")
		}
		r.delete("pods web", metav1.DeleteOptions{})
		r.valve.Open("pods")
		r.until("it goes after its pod", func() bool {
			return get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims data") == nil
		})
	})
}
