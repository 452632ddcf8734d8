package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

const (
	isRunning = proto.ContainerState_CONTAINER_STATE_RUNNING
	isExited  = proto.ContainerState_CONTAINER_STATE_EXITED
)

// containerIn is a container as the runtime holds it in the sandbox of [inBox].
func containerIn(name string, state proto.ContainerState, code int32) *proto.Container {
	return &proto.Container{Id: name + "-id", Name: name, State: state, ExitCode: code, SandboxId: "box", StartedAtUnixNano: 1e18}
}

func podWith(containers ...*proto.Container) podstate.Pod {
	return podstate.New("u", []*proto.Sandbox{{Id: "box", Ip: "10.0.0.1"}}, containers)
}

// describeStatus is a condition as a test compares it.
func describeStatus(status corev1.PodStatus, kind corev1.PodConditionType) string {
	c := podcondition.FindIn(status.Conditions, kind)
	if c == nil {
		return "none"
	}
	return string(c.Status) + ":" + c.Reason + ":" + c.Message
}

// TestGeneratePodInitializedCondition follows a pod of two sidecars around an ordinary init
// container (R10, R13): what has started or ended well leaves the message.
func TestGeneratePodInitializedCondition(t *testing.T) {
	pod := twoContainers(always)
	sidecar := new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{{Name: "s1", RestartPolicy: sidecar}, {Name: "setup"}, {Name: "s2", RestartPolicy: sidecar}}
	run := func(names ...string) (list []*proto.Container) {
		for _, name := range names {
			list = append(list, containerIn(name, isRunning, 0))
		}
		return list
	}
	done := containerIn("setup", isExited, 0)
	for _, row := range []struct {
		name string
		have []*proto.Container
		want string
	}{
		{"nothing has begun", nil, "False:ContainersNotInitialized:containers with incomplete status: [s1 setup s2]"},
		{"a sidecar has started", run("s1"), "False:ContainersNotInitialized:containers with incomplete status: [setup s2]"},
		{"the init container runs", run("s1", "setup"), "False:ContainersNotInitialized:containers with incomplete status: [setup s2]"},
		{"it has ended", append(run("s1"), done), "False:ContainersNotInitialized:containers with incomplete status: [s2]"},
		{"it has failed", append(run("s1"), containerIn("setup", isExited, 1)), "False:ContainersNotInitialized:containers with incomplete status: [setup s2]"},
		{"all are complete", append(run("s1", "s2"), done), "True::"},
		{"a regular container runs while a sidecar restarts", append(run("s1", "a"), done, containerIn("s2", isExited, 1)), "True::"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := Derive(Input{Pod: pod, Seen: podWith(row.have...), Compat: currentCompat(t), Now: time.Unix(1e9, 0)})
			if describeStatus(got, corev1.PodInitialized) != row.want {
				t.Errorf("Initialized is %s, want %s", describeStatus(got, corev1.PodInitialized), row.want)
			}
		})
	}
	t.Run("a sidecar whose startup probe has not succeeded", func(t *testing.T) {
		facts := Facts{Probes: map[string]ProbeResult{"s1-id": {}}}
		got := Derive(Input{Pod: pod, Seen: podWith(run("s1")...), Facts: facts, Compat: currentCompat(t)})
		if want := "False:ContainersNotInitialized:containers with incomplete status: [s1 setup s2]"; describeStatus(got, corev1.PodInitialized) != want {
			t.Errorf("Initialized is %s, want %s", describeStatus(got, corev1.PodInitialized), want)
		}
	})
	t.Run("once initialized it stays so", func(t *testing.T) {
		old := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}}
		if got := Derive(Input{Pod: pod, Old: old, Compat: currentCompat(t)}); describeStatus(got, corev1.PodInitialized) != "True::" {
			t.Errorf("Initialized is %s", describeStatus(got, corev1.PodInitialized))
		}
	})
}

// TestUpdatePodStatus: an ordinary init container is ready once it has ended well, and no sooner
// (R10).
func TestUpdatePodStatus(t *testing.T) {
	pod := twoContainers(always)
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	for _, row := range []struct {
		have           *proto.Container
		ready, started bool
	}{
		{containerIn("i", isRunning, 0), false, true}, {containerIn("i", isExited, 0), true, false}, {containerIn("i", isExited, 1), false, false},
	} {
		got := Derive(Input{Pod: pod, Seen: podWith(row.have), Compat: currentCompat(t)}).InitContainerStatuses[0]
		if got.Ready != row.ready || *got.Started != row.started {
			t.Errorf("%v with %d: ready %t, started %t", row.have.GetState(), row.have.GetExitCode(), got.Ready, *got.Started)
		}
	}
}

// TestGeneratePodReadyToStartContainersCondition is R1.
func TestGeneratePodReadyToStartContainersCondition(t *testing.T) {
	const notReady = proto.SandboxState_SANDBOX_STATE_NOTREADY
	for _, row := range []struct {
		name  string
		boxes []*proto.Sandbox
		want  string
	}{
		{"none", nil, "False:PodSandboxNotReady:no pod sandbox exists"},
		{"ready", []*proto.Sandbox{{Id: "a"}}, "True::"},
		{"not ready", []*proto.Sandbox{{Id: "a", State: notReady}}, "False:PodSandboxNotReady:pod sandbox is not ready"},
		{"a newer one is ready", []*proto.Sandbox{{Id: "a", State: notReady}, {Id: "b", Attempt: 1}}, "True::"},
		{"an older one is ready", []*proto.Sandbox{{Id: "a"}, {Id: "b", Attempt: 1, State: notReady}}, "False:PodSandboxNotReady:pod sandbox is not ready"},
		{"two are ready", []*proto.Sandbox{{Id: "a"}, {Id: "b", Attempt: 1}}, "False:PodSandboxNotReady:multiple pod sandboxes are ready and need to be reconciled"},
	} {
		got := Derive(Input{Pod: twoContainers(always), Seen: podstate.New("u", row.boxes, nil), Compat: currentCompat(t)})
		if describeStatus(got, corev1.PodReadyToStartContainers) != row.want {
			t.Errorf("%s: %s, want %s", row.name, describeStatus(got, corev1.PodReadyToStartContainers), row.want)
		}
	}
}

// TestMergePodStatus is R3 and R14: the conditions say at once that the pod has completed while its
// phase waits, and those of a pod that never ran stay as they were.
func TestMergePodStatus(t *testing.T) {
	pod := twoContainers(never)
	pod.Status.Phase = corev1.PodRunning
	ended := Derive(Input{Pod: pod, Seen: podWith(containerIn("a", isExited, 0), containerIn("b", isExited, 0)), Facts: Facts{MayRun: true}, Compat: currentCompat(t)})
	merged := Merge(pod, ended, Facts{MayRun: true}, time.Unix(1e9, 0))
	if merged.Phase != corev1.PodRunning || describeStatus(merged, corev1.PodReady) != "False:PodCompleted:" || describeStatus(merged, corev1.PodInitialized) != "True:PodCompleted:" {
		t.Errorf("R3: at first it is %s, Ready %s, Initialized %s", merged.Phase, describeStatus(merged, corev1.PodReady), describeStatus(merged, corev1.PodInitialized))
	}
	waiting := Derive(Input{Pod: pod, Facts: Facts{Ended: true}, Compat: currentCompat(t)})
	last := Merge(pod, Terminate(pod, waiting, currentCompat(t)), Facts{Ended: true}, time.Unix(1e9, 0))
	if want := "False:ContainersNotReady:containers with unready status: [a b]"; last.Phase != corev1.PodFailed || describeStatus(last, corev1.PodReady) != want {
		t.Errorf("R14: at its end it is %s, Ready %s", last.Phase, describeStatus(last, corev1.PodReady))
	}
	late := Merge(pod, corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
	}}, Facts{Ended: true}, time.Unix(1e9, 0))
	if describeStatus(late, corev1.PodReady) != "False:PodFailed:" || describeStatus(late, corev1.ContainersReady) != "False:PodFailed:" {
		t.Errorf("a final phase beside Ready %s", describeStatus(late, corev1.PodReady))
	}
}

// TestHasPodInitialized is R8: by the status that the worker's pod has, the init container still ran.
func TestHasPodInitialized(t *testing.T) {
	pod := twoContainers(always)
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{runningStatus("i")}
	ended := corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{exitedStatus("i", 0)}, ContainerStatuses: []corev1.ContainerStatus{waitingStatus("a"), waitingStatus("b")},
	}
	if got := Terminate(pod, ended, currentCompat(t)); got.ContainerStatuses[0].State.Waiting == nil || got.Phase != corev1.PodFailed {
		t.Errorf("R8: at its end it is %s, a is %+v", got.Phase, got.ContainerStatuses[0].State)
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{exitedStatus("i", 0)}
	if got := Terminate(pod, ended, currentCompat(t)); got.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("initialized, a is %+v", got.ContainerStatuses[0].State)
	}
}

// TestReasonCache is R9: what an attempt to start has come to counts from the next look on, and only
// while the container is to be started.
func TestReasonCache(t *testing.T) {
	pod := twoContainers(always)
	in := Input{Pod: pod, Seen: podWith(containerIn("a", isExited, 1), containerIn("b", isRunning, 0)), Compat: currentCompat(t)}
	if got := Derive(in).ContainerStatuses[0]; got.State.Terminated == nil {
		t.Errorf("before an attempt it is %+v", got)
	}
	in.Facts.Waiting = map[string]corev1.ContainerStateWaiting{"a": {Reason: "CrashLoopBackOff"}, "b": {Reason: "RunContainerError"}}
	got := Derive(in)
	if a := got.ContainerStatuses[0]; a.State.Waiting == nil || a.State.Waiting.Reason != "CrashLoopBackOff" || a.LastTerminationState.Terminated == nil {
		t.Errorf("after an attempt it is %+v", a)
	}
	if got.ContainerStatuses[1].State.Running == nil {
		t.Errorf("a container that runs is %+v", got.ContainerStatuses[1])
	}
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
	if in.Pod = pod; Derive(in).ContainerStatuses[0].State.Terminated == nil {
		t.Error("a container of a deleted pod waits for its restart")
	}
}

// TestConvertToAPIContainerStatuses is R7, and the order of the statuses: regular ones by name.
func TestConvertToAPIContainerStatuses(t *testing.T) {
	pod := twoContainers(always)
	pod.Spec.Containers = []corev1.Container{
		{Name: "b", Image: "nginx", VolumeMounts: []corev1.VolumeMount{{Name: "c", MountPath: "/c"}, {Name: "s", MountPath: "/s", ReadOnly: true}}},
		{Name: "a", Image: "x:1"},
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("40Mi")}
	got := Derive(Input{Pod: pod, Seen: podWith(containerIn("b", isRunning, 0)), Compat: currentCompat(t)})
	a, b := got.ContainerStatuses[0], got.ContainerStatuses[1]
	if a.Name != "a" || a.Resources != nil || a.ImageID != "" {
		t.Errorf("the container that has not run is %+v", a)
	}
	if b.Resources == nil || b.AllocatedResources.Memory().String() != "40Mi" || got.AllocatedResources.Memory().String() != "40Mi" {
		t.Errorf("resources %v, allocated %v, of the pod %v", b.Resources, b.AllocatedResources, got.AllocatedResources)
	}
	if len(b.VolumeMounts) != 2 || b.VolumeMounts[0].RecursiveReadOnly != nil || *b.VolumeMounts[1].RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled {
		t.Errorf("volume mounts %+v", b.VolumeMounts)
	}
	failed := containerIn("a", isExited, 128)
	failed.StartedAtUnixNano, failed.Reason = 0, "StartError"
	got = Derive(Input{Pod: pod, Seen: podWith(failed), Compat: currentCompat(t)})
	if began := got.ContainerStatuses[0].State.Terminated.StartedAt; began.Unix() != 0 {
		t.Errorf("a container that never started began at %v", began)
	}
}

func TestImageID(t *testing.T) {
	for image, repository := range map[string]string{
		"nginx": "docker.io/library/nginx", "nginx:1.27": "docker.io/library/nginx", "me/app:2": "docker.io/me/app",
		"localhost/app": "localhost/app", "registry.k8s.io/pause:3.10": "registry.k8s.io/pause", "h:5000/a/b": "h:5000/a/b",
	} {
		if got := ImageID(image); len(got) != len(repository)+len("@sha256:")+64 || got[:len(repository)+8] != repository+"@sha256:" {
			t.Errorf("ImageID(%s) = %s", image, got)
		}
	}
	if ImageID("nginx") != ImageID("docker.io/library/nginx:latest") || ImageID("nginx:1") == ImageID("nginx:2") {
		t.Error("the same image has two digests, or two images have one")
	}
	if got := ImageID("x.io/a:1@sha256:abc"); got != "x.io/a@sha256:abc" {
		t.Errorf("an image by its digest is %s", got)
	}
}

// TestNeedToReconcilePodReadiness: only what changes Ready has a worker told of a status.
func TestNeedToReconcilePodReadiness(t *testing.T) {
	pod := twoContainers(always)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{runningStatus("a"), runningStatus("b")}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: `corresponding condition of pod readiness gate "x.io/ok" does not exist.`,
	}}
	if NeedsReadiness(pod) {
		t.Error("a pod without gates needs it")
	}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x.io/ok"}}
	if NeedsReadiness(pod) {
		t.Error("a pod whose Ready is right needs it")
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "x.io/ok", Status: corev1.ConditionTrue})
	if !NeedsReadiness(pod) {
		t.Error("a gate that has opened changes nothing")
	}
}
