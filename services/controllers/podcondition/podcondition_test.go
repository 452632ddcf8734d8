package podcondition

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPatch(t *testing.T) {
	now := time.Unix(1_700_000_000, 5)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 2}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	gone := Disruption("DeletionByPodGC", "PodGC: node no longer exists")
	data, err := Patch(pod, corev1.PodFailed, &gone, now)
	want := `{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastProbeTime":null,` +
		`"lastTransitionTime":"2023-11-14T22:13:20Z","reason":"DeletionByPodGC","message":"PodGC: node no longer exists"}],"phase":"Failed"}}`
	if err != nil || string(data) != want {
		t.Errorf("got %s %v\nwant %s", data, err, want)
	}
	pod.Status.Phase = corev1.PodFailed
	gone.LastTransitionTime = metav1.Unix(7, 0)
	pod.Status.Conditions = []corev1.PodCondition{gone}
	if data, err := Patch(pod, corev1.PodFailed, &gone, now); data != nil || err != nil {
		t.Errorf("%s %v: want nothing to do", data, err)
	}
}
