package podworker

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// describePlan is a plan as a test compares it: "pod" is stopped, "-name" is killed, "x name" is removed,
// "+name" starts.
func describePlan(plan StartPlan) string {
	var words []string
	if plan.KillPod {
		words = append(words, "pod")
	}
	for _, kill := range plan.Kills {
		words = append(words, "-"+kill.Name)
	}
	for _, reset := range plan.Resets {
		words = append(words, "x"+reset.Name)
	}
	if plan.Sandbox {
		words = append(words, "box")
	}
	for _, start := range plan.Containers {
		words = append(words, "+"+start.Spec.Name)
	}
	return strings.Join(words, " ")
}

// withExitCode gives a container its exit code.
func withExitCode(c *proto.Container, exit int32) *proto.Container {
	c.ExitCode = exit
	return c
}

// withSidecars is a pod of the sidecar s1, the init container i, the sidecar s2 and the container a.
func withSidecars(policy corev1.RestartPolicy) *corev1.Pod {
	pod := podWithGraces(30, -1)
	pod.Spec.RestartPolicy = policy
	sidecar := new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "s1", RestartPolicy: sidecar, StartupProbe: &corev1.Probe{}}, {Name: "i"}, {Name: "s2", RestartPolicy: sidecar},
	}
	pod.Spec.Containers = []corev1.Container{{Name: "a"}}
	return pod
}

// TestComputePodActionsWithRestartableInitContainers: a sidecar lets the next container begin once its
// startup probe has succeeded, and keeps running after that.
func TestComputePodActionsWithRestartableInitContainers(t *testing.T) {
	const always, never = corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	startup, liveness := probes.Startup, probes.Liveness
	type list = []*proto.Container
	s1, i, s2, a := containerWith("s1", "s1", 0, running), containerWith("i", "i", 0, exited), containerWith("s2", "s2", 0, running), containerWith("a", "a", 0, running)
	for _, row := range []struct {
		name   string
		policy corev1.RestartPolicy
		have   list
		probed map[string]probes.State
		want   string
	}{
		{"nothing runs", always, nil, nil, "+s1"},
		{"s1 has not started", always, list{s1}, map[string]probes.State{"s1": {}}, ""},
		{"s1 has started", always, list{s1}, map[string]probes.State{"s1": {Started: true}}, "+i"},
		{"the startup probe of s1 has failed", always, list{s1}, map[string]probes.State{"s1": {Failed: &startup}}, "-s1 +s1"},
		{"s1 has failed its liveness probe", always, list{s1}, map[string]probes.State{"s1": {Started: true, Failed: &liveness}}, "-s1 +s1 +i"},
		{"i runs", always, list{s1, containerWith("i", "i", 0, running)}, nil, ""},
		{"i has ended", always, list{s1, i}, nil, "+s2"},
		{"i has ended while s1 restarts", always, list{containerWith("s1", "s1", 0, exited), i}, nil, "+s1 +s2"},
		{"i has failed", always, list{s1, withExitCode(containerWith("i", "i", 0, exited), 1)}, nil, "+i"},
		{"i has failed for good", never, list{s1, withExitCode(containerWith("i", "i", 0, exited), 1)}, nil, "pod"},
		{"all sidecars run", always, list{s1, i, s2}, nil, "+a"},
		{"the runtime has lost i", always, list{s1, s2}, nil, "+a"},
		{"a runs and s2 has ended", always, list{s1, i, containerWith("s2", "s2", 0, exited), a}, nil, "+s2"},
		{"a runs and s1 is lost", always, list{s2, a}, nil, "+s1"},
		{"a has ended for good", never, list{s1, i, s2, containerWith("a", "a", 0, exited)}, nil, "pod"},
		{"a has ended for good, s2 as well", never, list{s1, i, containerWith("s2", "s2", 0, exited), containerWith("a", "a", 0, exited)}, nil, "pod"},
	} {
		t.Run(row.name, func(t *testing.T) {
			plan := PlanStart(withSidecars(row.policy), StartInput{Seen: podWith(row.have...), Probes: row.probed, Now: zero}, CrashTiming{})
			if got := describePlan(plan); got != row.want {
				t.Errorf("the plan is %q, want %q", got, row.want)
			}
		})
	}
}

// TestComputePodActionsForProbes: a container that a probe has failed is killed and starts again in the
// same sync; without a restart the pod is stopped.
func TestComputePodActionsForProbes(t *testing.T) {
	liveness := probes.Liveness
	pod := podWithGraces(30, -1)
	pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	standing := StartInput{Now: zero, Probes: map[string]probes.State{"1": {Started: true, Failed: &liveness}}}
	standing.Seen = podWith(containerWith("1", "a", 3, running), containerWith("2", "b", 0, running))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	plan := PlanStart(pod, standing, CrashTiming{})
	if describePlan(plan) != "-a +a" || plan.Kills[0].Why != "Container a failed liveness probe, will be restarted" || plan.Containers[0].Attempt != 4 {
		t.Errorf("always: %s, %+v", describePlan(plan), plan)
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if plan := PlanStart(pod, standing, CrashTiming{}); describePlan(plan) != "-a" || plan.Kills[0].Why != "Container a failed liveness probe" {
		t.Errorf("never: %s, %+v", describePlan(plan), plan.Kills)
	}
	pod.Spec.Containers = pod.Spec.Containers[:1]
	if plan := PlanStart(pod, standing, CrashTiming{}); describePlan(plan) != "pod" {
		t.Errorf("never, the last one: %s", describePlan(plan))
	}
}

// TestComputePodActionsForSandboxes: in a new sandbox a pod begins anew; one that has ended gets none.
func TestComputePodActionsForSandboxes(t *testing.T) {
	dead := []*proto.Sandbox{{Id: "box", State: proto.SandboxState_SANDBOX_STATE_NOTREADY}}
	for _, row := range []struct {
		name   string
		policy corev1.RestartPolicy
		have   []*proto.Container
		want   string
	}{
		{"always", corev1.RestartPolicyAlways, []*proto.Container{containerWith("1", "i", 0, exited), containerWith("2", "a", 0, exited)}, "pod box +i"},
		{"never", corev1.RestartPolicyNever, []*proto.Container{containerWith("1", "i", 0, exited), containerWith("2", "a", 0, exited)}, "pod"},
		{"never, nothing was made", corev1.RestartPolicyNever, nil, "pod box +i"},
		{"on failure, ended well", corev1.RestartPolicyOnFailure, []*proto.Container{containerWith("1", "i", 0, exited), containerWith("2", "a", 0, exited)}, "pod"},
	} {
		pod := podWithGraces(30, -1)
		pod.Spec.RestartPolicy = row.policy
		pod.Spec.InitContainers, pod.Spec.Containers = []corev1.Container{{Name: "i"}}, []corev1.Container{{Name: "a"}}
		plan := PlanStart(pod, StartInput{Seen: podstate.New("u", dead, row.have), Now: zero}, CrashTiming{})
		if describePlan(plan) != row.want || plan.Sandbox && plan.Attempt != 1 {
			t.Errorf("%s: %q with attempt %d, want %q", row.name, describePlan(plan), plan.Attempt, row.want)
		}
	}
}

// TestRestartAllContainers: all are removed, those that have asked for it last, and then the pod
// begins with its first init container.
func TestRestartAllContainers(t *testing.T) {
	pod := podWithGraces(30, -1)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	pod.Spec.Containers = []corev1.Container{{Name: "w", RestartPolicy: new(corev1.ContainerRestartPolicyNever), RestartPolicyRules: []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
	}}}, {Name: "a"}}
	seen := podWith(containerWith("1", "i", 0, exited), withExitCode(containerWith("2", "w", 0, exited), 88), containerWith("3", "a", 0, running))
	if !podstate.RestartsAll(pod, seen, &corev1.PodStatus{}) || podstate.HasNoContainers(pod, seen) {
		t.Error("the exit code restarts nothing")
	}
	plan := PlanStart(pod, StartInput{Seen: seen, RestartAll: true, Now: zero}, CrashTiming{})
	want := []Reset{{"3", "a", true}, {"1", "i", false}, {"2", "w", false}}
	if !slices.Equal(plan.Resets, want) || plan.Starts() {
		t.Errorf("it removes %+v, want %+v", plan.Resets, want)
	}
	if plan := PlanStart(pod, StartInput{Seen: podWith(), Now: zero}, CrashTiming{}); describePlan(plan) != "+i" {
		t.Errorf("then it goes on with %q", describePlan(plan))
	}
}

func TestContainerShouldRestart(t *testing.T) {
	rule := func(action corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	never := new(corev1.ContainerRestartPolicyNever)
	for _, row := range []struct {
		name string
		spec corev1.Container
		exit int32
		want bool
	}{
		{"the pod's policy", corev1.Container{}, 1, true},
		{"its own policy", corev1.Container{RestartPolicy: never}, 1, false},
		{"a rule that matches", corev1.Container{RestartPolicy: never, RestartPolicyRules: []corev1.ContainerRestartRule{rule("Restart", in, 42)}}, 42, true},
		{"a rule that does not", corev1.Container{RestartPolicy: never, RestartPolicyRules: []corev1.ContainerRestartRule{rule("Restart", in, 42)}}, 1, false},
		{"the other codes", corev1.Container{RestartPolicy: never, RestartPolicyRules: []corev1.ContainerRestartRule{rule("Restart", notIn, 42)}}, 1, true},
		{"a rule for all containers", corev1.Container{RestartPolicy: never, RestartPolicyRules: []corev1.ContainerRestartRule{rule("RestartAllContainers", in, 42)}}, 42, true},
	} {
		pod := podWithGraces(30, -1)
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		if got := podstate.ShouldRestart(pod, &row.spec, row.exit); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
}

// TestHoldDelay: back-offs last as long as they say or half as long again, and no look is later than the
// usual one.
func TestHoldDelay(t *testing.T) {
	timing := Timing{Resync: time.Minute, Jitter: 0.5}
	for n := range uint64(100) {
		if got := timing.HoldDelay(10*time.Second, 1, "u", n); got < 10*time.Second || got > 15*time.Second {
			t.Fatalf("10 s became %v", got)
		}
		if got := timing.HoldDelay(5*time.Minute, 1, "u", n); got < time.Minute || got > 90*time.Second {
			t.Fatalf("5 min became %v", got)
		}
	}
}
