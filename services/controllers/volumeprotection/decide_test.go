package volumeprotection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaim(t *testing.T) {
	meta := func(deleted bool, finalizers ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "c", Finalizers: finalizers}
		if deleted {
			m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return m
	}
	user := func(node, claim string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}}}
	}
	for _, row := range []struct {
		name string
		meta metav1.ObjectMeta
		pods []*corev1.Pod
		want Change
	}{
		{"new", meta(false), nil, Add},
		{"protected", meta(false, ClaimFinalizer), nil, Keep},
		{"deleted, used", meta(true, ClaimFinalizer), []*corev1.Pod{user("n", "c")}, Keep},
		{"deleted, used by one without a node", meta(true, ClaimFinalizer), []*corev1.Pod{user("", "c")}, Remove},
		{"deleted, another is used", meta(true, ClaimFinalizer), []*corev1.Pod{user("n", "d")}, Remove},
		{"deleted, released", meta(true, "other"), nil, Keep},
	} {
		if got := Claim(&corev1.PersistentVolumeClaim{ObjectMeta: row.meta}, row.pods); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
	bound := &corev1.PersistentVolume{ObjectMeta: meta(true, VolumeFinalizer), Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	if got := Volume(bound); got != Keep {
		t.Errorf("bound: %v", got)
	}
	bound.Status.Phase = corev1.VolumeReleased
	if got := Volume(bound); got != Remove {
		t.Errorf("released: %v", got)
	}
}
