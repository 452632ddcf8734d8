package volumeprotection

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnused has claims, pods that name them, and the condition that follows (KEP-5541).
func TestUnused(t *testing.T) {
	now := time.Unix(1000, 0)
	claim := func(phase corev1.PersistentVolumeClaimPhase, status ...corev1.ConditionStatus) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		c.Status.Phase = phase
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}}
		for _, s := range status {
			c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimUnused, Status: s})
		}
		return c
	}
	user := func(phase corev1.PodPhase, change ...func(*corev1.Pod)) []*corev1.Pod {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
		}}}}, Status: corev1.PodStatus{Phase: phase}}
		for _, f := range change {
			f(pod)
		}
		return []*corev1.Pod{pod}
	}
	deleted := func(state corev1.ContainerState) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp = &metav1.Time{Time: now}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: state}}
		}
	}
	going := claim(corev1.ClaimBound)
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for name, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		pods  []*corev1.Pod
		want  string
	}{
		"no pod":                    {claim(corev1.ClaimBound), nil, "True NoPodsUsingPVC No pods are currently referencing this PVC"},
		"a pod without a node":      {claim(corev1.ClaimBound), user(corev1.PodPending), "False PodUsingPVC A pod is currently referencing this PVC"},
		"a pod comes":               {claim(corev1.ClaimBound, "True"), user(corev1.PodRunning), "False PodUsingPVC A pod is currently referencing this PVC"},
		"a pod goes":                {claim(corev1.ClaimBound, "False"), nil, "True NoPodsUsingPVC No pods are currently referencing this PVC"},
		"a pod that has ended":      {claim(corev1.ClaimBound, "False"), user(corev1.PodSucceeded), "True NoPodsUsingPVC No pods are currently referencing this PVC"},
		"a pod that stops":          {claim(corev1.ClaimBound, "False"), user(corev1.PodRunning, deleted(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})), ""},
		"a pod that has stopped":    {claim(corev1.ClaimBound, "False"), user(corev1.PodRunning, deleted(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})), "True NoPodsUsingPVC No pods are currently referencing this PVC"},
		"still unused":              {claim(corev1.ClaimBound, "True"), nil, ""},
		"still used":                {claim(corev1.ClaimBound, "False"), user(corev1.PodRunning), ""},
		"a claim that is not bound": {claim(corev1.ClaimPending), nil, ""},
		"a claim that is deleted":   {going, nil, ""},
	} {
		condition, changes := Unused(c.claim, c.pods, now)
		got := ""
		if changes {
			got = strings.Join([]string{string(condition.Status), condition.Reason, condition.Message}, " ")
			written := withCondition(c.claim, condition).Status.Conditions
			if len(written) != 2 || written[1] != condition || written[0].Type != corev1.PersistentVolumeClaimResizing || !condition.LastTransitionTime.Time.Equal(now) {
				t.Errorf("%s: written as %+v", name, written)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestUsesEphemeral has a volume that was made for a pod used until the pod has shut down.
func TestUsesEphemeral(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
	}}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-data", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}}}
	if !Uses(pod, claim) {
		t.Error("a pod does not use its own volume")
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64(0))
	if Uses(pod, claim) {
		t.Error("a pod that has shut down keeps its volume")
	}
}

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
