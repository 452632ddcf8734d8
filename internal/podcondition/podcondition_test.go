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

// TestSet keeps the time of a condition while its status stays the same, and its place.
func TestSet(t *testing.T) {
	pod := &corev1.Pod{}
	for i, row := range []struct {
		kind   corev1.PodConditionType
		status corev1.ConditionStatus
		since  int64
	}{
		{corev1.PodReady, corev1.ConditionFalse, 0},
		{corev1.PodScheduled, corev1.ConditionTrue, 1},
		{corev1.PodReady, corev1.ConditionFalse, 0},
		{corev1.PodReady, corev1.ConditionTrue, 3},
	} {
		Set(pod, corev1.PodCondition{Type: row.kind, Status: row.status}, time.Unix(int64(i), 5))
		if got := Find(pod, row.kind); got.Status != row.status || got.LastTransitionTime.Unix() != row.since {
			t.Errorf("%d: %s since %d, want %s since %d", i, got.Status, got.LastTransitionTime.Unix(), row.status, row.since)
		}
	}
	if len(pod.Status.Conditions) != 2 || pod.Status.Conditions[0].Type != corev1.PodReady {
		t.Errorf("the conditions are %v", pod.Status.Conditions)
	}
}
