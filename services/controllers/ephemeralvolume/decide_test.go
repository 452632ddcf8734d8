package ephemeralvolume

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	volume := corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}},
	}}}
	claim, err := Decide(pod, volume, nil)
	if err != nil || claim.Name != "web-scratch" || claim.Labels["a"] != "b" || !metav1.IsControlledBy(claim, pod) {
		t.Fatalf("%+v %v", claim, err)
	}
	if again, err := Decide(pod, volume, claim); again != nil || err != nil {
		t.Errorf("made again: %v %v", again, err)
	}
	const want = `PVC "default/web-scratch" was not created for pod "default/web" (pod is not owner)`
	if _, err := Decide(pod, volume, &corev1.PersistentVolumeClaim{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if late, err := Decide(pod, volume, nil); late != nil || err != nil {
		t.Errorf("made for a pod that goes: %v %v", late, err)
	}
	if none, err := Decide(&corev1.Pod{}, corev1.Volume{}, nil); none != nil || err != nil {
		t.Errorf("made for another volume: %v %v", none, err)
	}
}
