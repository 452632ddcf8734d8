package status

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestValidateContainerLogStatus(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	ended := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, row := range []struct {
		name        string
		now, before corev1.ContainerState
		previous    bool
		want        string
	}{
		{"runs", running, ended("podfall://c0"), false, "c1"},
		{"runs, previous", running, ended("podfall://c0"), true, "c0"},
		{"runs, no previous", running, corev1.ContainerState{}, true, `previous terminated container "a" in pod "p" not found`},
		{"has ended", ended("podfall://c1"), ended("podfall://c0"), false, "c1"},
		{"crash loops", waiting("CrashLoopBackOff"), ended("podfall://c0"), false, "c0"},
		{"was lost", ended(""), corev1.ContainerState{}, false, `container "a" in pod "p" is terminated`},
		{"waits for the init containers", waiting("PodInitializing"), corev1.ContainerState{}, false, `container "a" in pod "p" is waiting to start: PodInitializing`},
		{"has no image", waiting("ErrImagePull"), corev1.ContainerState{}, false, `container "a" in pod "p" is waiting to start: image can't be pulled`},
		{"has no image for long", waiting("ImagePullBackOff"), corev1.ContainerState{}, false, `container "a" in pod "p" is waiting to start: trying and failing to pull image`},
	} {
		status := &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: "podfall://c1", State: row.now, LastTerminationState: row.before}}}
		got, err := Logged(status, "p", "a", row.previous)
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	if _, err := Logged(&corev1.PodStatus{}, "p", "a", false); err == nil || err.Error() != `container "a" in pod "p" is not available` {
		t.Errorf("none of that name: %v", err)
	}
}
