package podworker

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

var errProperty = errors.New("it failed")

func containerWith(id, name string, attempt uint32, state proto.ContainerState) *proto.Container {
	return &proto.Container{Id: id, Name: name, Attempt: attempt, State: state}
}

const (
	created = proto.ContainerState_CONTAINER_STATE_CREATED
	running = proto.ContainerState_CONTAINER_STATE_RUNNING
	exited  = proto.ContainerState_CONTAINER_STATE_EXITED
	unknown = proto.ContainerState_CONTAINER_STATE_UNKNOWN
)

func TestPlanStop(t *testing.T) {
	pod := podWithGraces(30, -1)
	pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	seen := podstate.New("u", []*proto.Sandbox{{Id: "s0"}, {Id: "s1", Attempt: 1}}, []*proto.Container{
		containerWith("1", "a", 0, exited), containerWith("2", "a", 1, running), containerWith("3", "b", 0, unknown), containerWith("4", "c", 0, created),
		containerWith("5", "i", 0, running),
	})
	want := StopPlan{
		Containers: []ContainerStop{{ID: "2", Name: "a", Grace: 12}, {ID: "3", Name: "b", Grace: 12}, {ID: "5", Name: "i", Grace: 12}},
		Sandboxes:  []string{"s1", "s0"},
	}
	if diff := cmp.Diff(want, PlanStop(pod, seen, new(int64(12)))); diff != "" {
		t.Errorf("KBL-32: what runs is stopped, then every sandbox (-want +got):\n%s", diff)
	}
	stray := PlanStop(pod, podstate.New("u", nil, []*proto.Container{containerWith("9", "stray", 0, running)}), nil)
	if len(stray.Containers) != 1 || stray.Containers[0].Err == nil {
		t.Errorf("TD-083: a container that the spec does not name is planned as %+v, want an error", stray.Containers)
	}
}

func TestJoinErrors(t *testing.T) {
	one, two := errors.New("a"), errors.New("b")
	for _, row := range []struct {
		errs []error
		want string
	}{
		{[]error{nil, one}, "a"},
		{[]error{one, nil, two, one}, "[a, b]"},
	} {
		if got := joinErrors(row.errs); got == nil || got.Error() != row.want {
			t.Errorf("bracketed(%v) = %v, want %s", row.errs, got, row.want)
		}
	}
	if got := joinErrors([]error{nil, nil}); got != nil {
		t.Errorf("bracketed of nothing = %v", got)
	}
}

// podWith are containers in a ready sandbox.
func podWith(containers ...*proto.Container) podstate.Pod {
	for _, c := range containers {
		c.SandboxId = "box"
	}
	return podstate.New("u", []*proto.Sandbox{{Id: "box"}}, containers)
}

func namesOf(starts []ContainerStart) []string {
	var names []string
	for _, s := range starts {
		names = append(names, s.Spec.Name)
	}
	return names
}

func TestPlanStart(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	failed := func(c *proto.Container) *proto.Container {
		c.ExitCode = 1
		return c
	}
	for _, row := range []struct {
		name   string
		policy corev1.RestartPolicy
		init   bool
		have   []*proto.Container
		starts []string
		ended  bool
	}{
		{"nothing yet", always, false, nil, []string{"a", "b"}, false},
		{"all run", always, false, []*proto.Container{containerWith("1", "a", 0, running), containerWith("2", "b", 0, running)}, nil, false},
		{"the first init container comes first", always, true, nil, []string{"i"}, false},
		{"it runs", always, true, []*proto.Container{containerWith("1", "i", 0, running)}, nil, false},
		{"the second is next", always, true, []*proto.Container{containerWith("1", "i", 0, exited)}, []string{"j"}, false},
		{"both have ended", always, true, []*proto.Container{containerWith("1", "i", 0, exited), containerWith("2", "j", 0, exited)}, []string{"a", "b"}, false},
		{"an init container failed", always, true, []*proto.Container{failed(containerWith("1", "i", 0, exited))}, []string{"i"}, false},
		{"an init container failed for good", never, true, []*proto.Container{failed(containerWith("1", "i", 0, exited))}, nil, true},
		{"init containers are removed later", always, true, []*proto.Container{containerWith("3", "a", 0, running)}, []string{"b"}, false},
		{"one has ended, always", always, false, []*proto.Container{containerWith("1", "a", 0, exited), containerWith("2", "b", 0, running)}, []string{"a"}, false},
		{"one has ended, never", never, false, []*proto.Container{containerWith("1", "a", 0, exited), containerWith("2", "b", 0, running)}, nil, false},
		{"all have ended, never", never, false, []*proto.Container{failed(containerWith("1", "a", 0, exited)), containerWith("2", "b", 0, exited)}, nil, true},
		{"one failed, on failure", onFailure, false, []*proto.Container{failed(containerWith("1", "a", 0, exited)), containerWith("2", "b", 0, exited)}, []string{"a"}, false},
		{"none failed, on failure", onFailure, false, []*proto.Container{containerWith("1", "a", 0, exited), containerWith("2", "b", 0, exited)}, nil, true},
		{"created and never started", never, false, []*proto.Container{containerWith("1", "a", 0, created), containerWith("2", "b", 0, exited)}, []string{"a"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := podWithGraces(30, -1)
			pod.Spec.RestartPolicy = row.policy
			pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
			if row.init {
				pod.Spec.InitContainers = []corev1.Container{{Name: "i"}, {Name: "j"}}
			}
			plan := PlanStart(pod, StartInput{Seen: podWith(row.have...), Now: zero}, CrashTiming{})
			if got := namesOf(plan.Containers); !slices.Equal(got, row.starts) || plan.KillPod != row.ended {
				t.Errorf("it starts %v, ended %t; want %v, %t", got, plan.KillPod, row.starts, row.ended)
			}
			if plan.Sandbox {
				t.Error("it makes a sandbox beside the one that is there")
			}
		})
	}
}

// TestPlanStartOfCreatedContainers: a container that was made and has not run is started, unless
// its sandbox is no longer the pod's.
func TestPlanStartOfCreatedContainers(t *testing.T) {
	pod := podWithGraces(30, -1)
	pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	made := func(id, name, sandbox string) *proto.Container {
		return &proto.Container{Id: id, Name: name, Attempt: 2, State: created, SandboxId: sandbox}
	}
	seen := podstate.New("u", []*proto.Sandbox{{Id: "new", Attempt: 1}, {Id: "old"}}, []*proto.Container{
		made("1", "a", "new"), made("2", "b", "old"),
	})
	want := []ContainerStart{
		{Spec: &pod.Spec.Containers[0], Attempt: 2, CreatedID: "1"},
		{Spec: &pod.Spec.Containers[1], Attempt: 3},
	}
	if diff := cmp.Diff(want, PlanStart(pod, StartInput{Seen: seen, Now: zero}, CrashTiming{}).Containers); diff != "" {
		t.Errorf("it starts (-want +got):\n%s", diff)
	}
}
