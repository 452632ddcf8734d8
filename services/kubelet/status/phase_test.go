package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
)

func twoContainers(policy corev1.RestartPolicy) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", Generation: 2}}
	pod.Spec.RestartPolicy = policy
	pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	return pod
}

func runningStatus(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Ready: true}
}

func exitedStatus(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func waitingStatus(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
}

func crashedStatus(name string) corev1.ContainerStatus {
	c := waitingStatus(name)
	c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	return c
}

func TestPhase(t *testing.T) {
	type list = []corev1.ContainerStatus
	for _, row := range []struct {
		name   string
		policy corev1.RestartPolicy
		have   list
		ended  bool
		want   corev1.PodPhase
	}{
		{"TD-070 always, no statuses", always, nil, false, corev1.PodPending},
		{"TD-070 always, both run", always, list{runningStatus("a"), runningStatus("b")}, false, corev1.PodRunning},
		{"TD-070 always, both stopped", always, list{exitedStatus("a", 1), exitedStatus("b", 0)}, false, corev1.PodRunning},
		{"TD-070 always, both exit 0, pod ended", always, list{exitedStatus("a", 0), exitedStatus("b", 0)}, true, corev1.PodSucceeded},
		{"TD-070 always, one failed, pod ended", always, list{exitedStatus("a", 0), exitedStatus("b", 143)}, true, corev1.PodFailed},
		{"TD-070 always, one runs, one stopped", always, list{runningStatus("a"), exitedStatus("b", 0)}, false, corev1.PodRunning},
		{"TD-070 always, one runs, one missing", always, list{runningStatus("a")}, false, corev1.PodPending},
		{"TD-070 always, one runs, one waits", always, list{runningStatus("a"), waitingStatus("b")}, false, corev1.PodPending},
		{"TD-070 always, one runs, one crash loops", always, list{runningStatus("a"), crashedStatus("b")}, false, corev1.PodRunning},
		{"TD-071 never, both exit 0", never, list{exitedStatus("a", 0), exitedStatus("b", 0)}, false, corev1.PodSucceeded},
		{"TD-071 never, one failed", never, list{exitedStatus("a", 1), exitedStatus("b", 0)}, false, corev1.PodFailed},
		{"TD-071 never, one runs", never, list{exitedStatus("a", 1), runningStatus("b")}, false, corev1.PodRunning},
		{"TD-071 never, one waits", never, list{exitedStatus("a", 0), waitingStatus("b")}, false, corev1.PodPending},
		{"TD-071 on failure, failed", onFailure, list{exitedStatus("a", 1), exitedStatus("b", 0)}, false, corev1.PodRunning},
		{"TD-071 on failure, failed, pod ended", onFailure, list{exitedStatus("a", 1), exitedStatus("b", 0)}, true, corev1.PodFailed},
		{"TD-071 on failure, both exit 0", onFailure, list{exitedStatus("a", 0), exitedStatus("b", 0)}, false, corev1.PodSucceeded},
	} {
		t.Run(row.name, func(t *testing.T) {
			status := corev1.PodStatus{ContainerStatuses: row.have}
			if got := Phase(twoContainers(row.policy), status, PhaseInput{Ended: row.ended}); got != row.want {
				t.Errorf("Phase = %s, want %s", got, row.want)
			}
		})
	}
}

func TestPhaseOfInitialization(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy corev1.RestartPolicy
		init   []corev1.ContainerStatus
		want   corev1.PodPhase
	}{
		{"it runs", always, []corev1.ContainerStatus{runningStatus("i")}, corev1.PodPending},
		{"it failed and restarts", always, []corev1.ContainerStatus{exitedStatus("i", 1)}, corev1.PodRunning}, // pending are only those after it
		{"it failed for good", never, []corev1.ContainerStatus{exitedStatus("i", 1)}, corev1.PodFailed},
		{"it has ended", always, []corev1.ContainerStatus{exitedStatus("i", 0)}, corev1.PodRunning},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := twoContainers(row.policy)
			pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			status := corev1.PodStatus{InitContainerStatuses: row.init, ContainerStatuses: []corev1.ContainerStatus{runningStatus("a"), runningStatus("b")}}
			if got := Phase(pod, status, PhaseInput{}); got != row.want {
				t.Errorf("Phase = %s, want %s", got, row.want)
			}
		})
	}
}

func currentCompat(t *testing.T) proto.Compat {
	t.Helper()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	return compat
}

func TestTerminate(t *testing.T) {
	for _, row := range []struct {
		name       string
		have, want corev1.PodPhase
	}{
		{"TD-079 Pending", corev1.PodPending, corev1.PodFailed},
		{"TD-079 Running", corev1.PodRunning, corev1.PodFailed},
		{"TD-079 Unknown", corev1.PodUnknown, corev1.PodFailed},
		{"TD-079 another", "Bumping", corev1.PodFailed},
		{"TD-079 Succeeded", corev1.PodSucceeded, corev1.PodSucceeded},
		{"TD-079 Failed", corev1.PodFailed, corev1.PodFailed},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := Terminate(twoContainers(always), corev1.PodStatus{Phase: row.have}, currentCompat(t))
			if got.Phase != row.want {
				t.Errorf("the phase is %s, want %s", got.Phase, row.want)
			}
		})
	}
	t.Run("KBL-62 a container nobody can find", func(t *testing.T) {
		got := Terminate(twoContainers(always), corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{runningStatus("a"), exitedStatus("b", 3)}}, currentCompat(t))
		a, b := got.ContainerStatuses[0], got.ContainerStatuses[1]
		if end := a.State.Terminated; end == nil || end.ExitCode != 137 || end.Reason != "ContainerStatusUnknown" {
			t.Errorf("the lost container is %+v", a)
		}
		if b.State.Terminated.ExitCode != 3 {
			t.Errorf("the ended container is %+v", b)
		}
	})
	t.Run("KBL-62 a container that never could start", func(t *testing.T) {
		pod := twoContainers(always)
		pod.Spec.InitContainers = []corev1.Container{{Name: "i"}, {Name: "j"}}
		got := Terminate(pod, corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{waitingStatus("a")}, InitContainerStatuses: []corev1.ContainerStatus{waitingStatus("i"), waitingStatus("j")},
		}, currentCompat(t))
		if got.ContainerStatuses[0].State.Waiting == nil {
			t.Errorf("it says that it ran: %+v", got)
		}
		if got.InitContainerStatuses[0].State.Terminated == nil || got.InitContainerStatuses[1].State.Waiting == nil {
			t.Errorf("of the init containers that wait, the first and no other counts as begun: %+v", got.InitContainerStatuses)
		}
	})
	t.Run("v1.22 publishes no phase", func(t *testing.T) {
		old, err := proto.CompatFor("v1.22")
		if err != nil {
			t.Fatal(err)
		}
		if got := Terminate(twoContainers(always), corev1.PodStatus{Phase: corev1.PodRunning}, old); got.Phase != corev1.PodRunning {
			t.Errorf("the phase is %s", got.Phase)
		}
	})
}

func describeReady(status corev1.PodStatus) string {
	c := podcondition.FindIn(status.Conditions, corev1.PodReady)
	if c == nil {
		return "none"
	}
	return string(c.Status) + ":" + c.Reason + ":" + c.Message
}

// TestDerive follows one pod from nothing to its end.
func TestDerive(t *testing.T) {
	now := time.Unix(1e9, 5e8)
	pod := twoContainers(always)
	pod.Spec.Containers = pod.Spec.Containers[:1]
	in := Input{Pod: pod, HostIP: "127.0.0.1", Compat: currentCompat(t), Now: now, Facts: Facts{MayRun: true}}
	first := Derive(in)
	if first.Phase != corev1.PodPending || first.ContainerStatuses[0].State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("before the start it is %+v", first)
	}
	if want := "False:ContainersNotReady:containers with unready status: [a]"; describeReady(first) != want {
		t.Errorf("before the start Ready is %s, want %s", describeReady(first), want)
	}
	container := &proto.Container{
		Id: "c1", Name: "a", State: proto.ContainerState_CONTAINER_STATE_RUNNING, StartedAtUnixNano: now.UnixNano(),
	}
	sandbox := &proto.Sandbox{Id: "s1", Ip: "10.0.0.1"}
	in.Old, in.Seen, in.Now = first, podstate.New("u", []*proto.Sandbox{sandbox}, []*proto.Container{container}), now.Add(time.Minute)
	second := Derive(in)
	if second.Phase != corev1.PodRunning || describeReady(second) != "True::" || second.PodIP != "10.0.0.1" || second.ObservedGeneration != 2 {
		t.Errorf("while it runs it is %+v", second)
	}
	if at := podcondition.FindIn(second.Conditions, corev1.PodScheduled).LastTransitionTime; !at.Equal(podcondition.FindIn(first.Conditions, corev1.PodScheduled).LastTransitionTime.DeepCopy()) {
		t.Error("a condition that did not change has a new transition time")
	}
	container = &proto.Container{
		Id: "c1", Name: "a", State: proto.ContainerState_CONTAINER_STATE_EXITED, ExitCode: 143,
		StartedAtUnixNano: now.UnixNano(), FinishedAtUnixNano: now.Add(time.Hour).UnixNano(),
	}
	sandbox = &proto.Sandbox{Id: "s1", State: proto.SandboxState_SANDBOX_STATE_NOTREADY}
	in.Old, in.Seen, in.Facts = second, podstate.New("u", []*proto.Sandbox{sandbox}, []*proto.Container{container}), Facts{Ended: true}
	third := Derive(in)
	end := third.ContainerStatuses[0].State.Terminated
	if third.Phase != corev1.PodFailed || describeReady(third) != "False:PodFailed:" || end.Reason != "Error" || end.ContainerID != "podfall://c1" {
		t.Errorf("at its end it is %+v", third)
	}
	if third.PodIP != "10.0.0.1" || third.StartTime == nil || !third.StartTime.Equal(first.StartTime) {
		t.Error("KBL-68: its address or its start time is lost")
	}
	if c := podcondition.FindIn(third.Conditions, corev1.PodReadyToStartContainers); c.Status != corev1.ConditionFalse {
		t.Error("KBL-71: PodReadyToStartContainers stays True without a sandbox")
	}
	in.Old, in.Seen = second, podstate.Pod{}
	lost := Derive(in).ContainerStatuses[0]
	if lost.LastTerminationState.Terminated == nil || lost.LastTerminationState.Terminated.Reason != "ContainerStatusUnknown" || lost.RestartCount != 1 {
		t.Errorf("a container that vanished is %+v", lost)
	}
}

func TestMerge(t *testing.T) {
	live := twoContainers(never)
	live.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"},
	}}
	wanted := corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "Evicted", ContainerStatuses: []corev1.ContainerStatus{exitedStatus("a", 1), exitedStatus("b", 0)},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"}},
	}
	held := Merge(live, wanted, Facts{MayRun: true}, time.Unix(1e9, 0))
	if held.Phase != corev1.PodRunning || held.Reason != "" {
		t.Errorf("KBL-67: while a container may run the phase is %s %s", held.Phase, held.Reason)
	}
	if describeReady(held) != "False:PodFailed:" {
		t.Errorf("KBL-67: while the phase is held back Ready is %s, want the reason of the end (R3)", describeReady(held))
	}
	let := Merge(live, wanted, Facts{}, time.Unix(1e9, 0))
	if let.Phase != corev1.PodFailed || let.Reason != "Evicted" || describeReady(let) != "False:PodFailed:" {
		t.Errorf("KBL-67: then it is %s %s, Ready %s", let.Phase, let.Reason, describeReady(let))
	}
	if podcondition.FindIn(let.Conditions, corev1.DisruptionTarget) == nil {
		t.Error("KBL-67: a condition of others is lost")
	}
	live.Status.Phase = corev1.PodSucceeded
	if again := Merge(live, corev1.PodStatus{Phase: corev1.PodRunning}, Facts{}, time.Unix(1e9, 0)); again.Phase != corev1.PodSucceeded {
		t.Errorf("a final phase became %s", again.Phase)
	}
}

// TD-072: a sidecar counts while it runs; how it ends does not (KBL-54).
func TestPhaseWithSidecar(t *testing.T) {
	type list = []corev1.ContainerStatus
	started := func(name string) corev1.ContainerStatus {
		c := runningStatus(name)
		c.Started = new(true)
		return c
	}
	for _, row := range []struct {
		name    string
		policy  corev1.RestartPolicy
		sidecar list
		have    list
		ended   bool
		want    corev1.PodPhase
	}{
		{"nothing runs yet", always, nil, nil, false, corev1.PodPending},
		{"the sidecar has not started", always, list{runningStatus("s")}, nil, false, corev1.PodPending},
		{"it has, the others have not", always, list{started("s")}, list{waitingStatus("a"), waitingStatus("b")}, false, corev1.PodPending},
		{"all run", always, list{started("s")}, list{runningStatus("a"), runningStatus("b")}, false, corev1.PodRunning},
		{"it restarts while the others run", always, list{crashedStatus("s")}, list{runningStatus("a"), runningStatus("b")}, false, corev1.PodRunning},
		{"the others have ended, it runs", never, list{started("s")}, list{exitedStatus("a", 0), exitedStatus("b", 0)}, false, corev1.PodRunning},
		{"all have ended, it badly", never, list{exitedStatus("s", 137)}, list{exitedStatus("a", 0), exitedStatus("b", 0)}, true, corev1.PodSucceeded},
		{"all have ended, it well", never, list{exitedStatus("s", 0)}, list{exitedStatus("a", 1), exitedStatus("b", 0)}, true, corev1.PodFailed},
	} {
		pod := twoContainers(row.policy)
		pod.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		got := Phase(pod, corev1.PodStatus{InitContainerStatuses: row.sidecar, ContainerStatuses: row.have}, PhaseInput{Ended: row.ended, Initialized: row.sidecar != nil && row.have != nil})
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// A pod whose containers are ready is Ready when its gates say so too.
func TestReadinessGates(t *testing.T) {
	pod := twoContainers(always)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a.io/one"}, {ConditionType: "a.io/two"}}
	ready := corev1.PodCondition{Status: corev1.ConditionTrue}
	set := func(kind corev1.PodConditionType, is corev1.ConditionStatus) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: is})
	}
	if got := readyCondition(pod, ready); got.Reason != "ReadinessGatesNotReady" ||
		got.Message != `corresponding condition of pod readiness gate "a.io/one" does not exist., `+
			`corresponding condition of pod readiness gate "a.io/two" does not exist.` {
		t.Errorf("without conditions: %+v", got)
	}
	set("a.io/one", corev1.ConditionTrue)
	set("a.io/two", corev1.ConditionFalse)
	if got := readyCondition(pod, ready); got.Status != corev1.ConditionFalse ||
		got.Message != `the status of pod readiness gate "a.io/two" is not "True", but False` {
		t.Errorf("with one that is false: %+v", got)
	}
	pod.Status.Conditions[1].Status = corev1.ConditionTrue
	if got := readyCondition(pod, ready); got.Status != corev1.ConditionTrue {
		t.Errorf("with both true: %+v", got)
	}
	unready := corev1.PodCondition{Status: corev1.ConditionFalse, Reason: reasonNotReady}
	if got := readyCondition(pod, unready); got != unready {
		t.Errorf("with containers that are not ready: %+v", got)
	}
}

// TestReasonsDoNotReviveContainers keeps a container terminated that could not be started well
// and will not run again: the apiserver refuses another state.
func TestReasonsDoNotReviveContainers(t *testing.T) {
	waiting := map[string]corev1.ContainerStateWaiting{"a": {Reason: "PostStartHookError"}}
	for policy, want := range map[corev1.RestartPolicy]string{always: "waiting", corev1.RestartPolicyNever: "terminated"} {
		pod := twoContainers(policy)
		in := Input{Pod: pod, Compat: currentCompat(t), Now: time.Unix(1e9, 0), Facts: Facts{MayRun: true, Waiting: waiting}}
		in.Seen = podstate.New("u", nil, []*proto.Container{{Id: "c1", Name: "a", State: proto.ContainerState_CONTAINER_STATE_EXITED, ExitCode: 143}})
		got := "terminated"
		if Derive(in).ContainerStatuses[0].State.Waiting != nil {
			got = "waiting"
		}
		if got != want {
			t.Errorf("with restartPolicy %s it is %s, want %s", policy, got, want)
		}
	}
}
