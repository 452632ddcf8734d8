package podworker

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// planner builds a StartPlan.
type planner struct {
	StartInput

	pod    *corev1.Pod
	timing CrashTiming
	plan   StartPlan
	// toStart counts the containers to start, including those in back-off.
	toStart int
}

// PlanStart decides what a pod that should run lacks (upstream's computePodActions): its sandbox,
// its init containers in order, its containers, and restarts.
func PlanStart(pod *corev1.Pod, standing StartInput, t CrashTiming) StartPlan {
	p := planner{StartInput: standing, pod: pod, timing: t}
	if standing.RestartAll {
		p.planResets()
		return p.plan
	}
	if needs, attempt, _ := p.Seen.NeedsSandbox(); needs {
		p.planSandbox(attempt)
		return p.plan
	}
	p.planEphemeral()
	if p.planInit() && !p.plan.KillPod {
		p.planContainers()
	}
	return p.plan
}

// planResets plans to remove all containers of the pod: first the regular ones, then the init
// containers. The containers that asked for it come last, so that their exit codes stay visible
// longest.
func (p *planner) planResets() {
	var last []Reset
	for _, list := range [][]corev1.Container{p.pod.Spec.Containers, p.pod.Spec.InitContainers} {
		for i := range list {
			for _, c := range p.Seen.Containers {
				if c.GetName() != list[i].Name {
					continue
				}
				reset := Reset{ID: c.GetId(), Name: c.GetName(), Kill: !hasExited(c)}
				if hasExited(c) && podstate.TriggersRestartAll(&list[i], c.GetExitCode()) {
					last = append(last, reset)
				} else {
					p.plan.Resets = append(p.plan.Resets, reset)
				}
			}
		}
	}
	p.plan.Resets = append(p.plan.Resets, last...)
}

// planSandbox plans a new sandbox, in which the pod begins from its first init container.
func (p *planner) planSandbox(attempt uint32) {
	p.plan.KillPod = len(p.Seen.Sandboxes) > 0
	if p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && attempt != 0 && len(p.Seen.Containers) != 0 {
		return
	}
	var again []*corev1.Container
	for i := range p.pod.Spec.Containers {
		if spec := &p.pod.Spec.Containers[i]; !p.hasSucceeded(spec) {
			again = append(again, spec)
		}
	}
	if len(again) == 0 && slices.ContainsFunc(p.pod.Spec.Containers, func(c corev1.Container) bool { return p.Seen.Latest(c.Name) != nil }) {
		return
	}
	p.plan.Sandbox, p.plan.Attempt = true, attempt
	if len(p.pod.Spec.InitContainers) > 0 {
		p.planInitStart(0)
		return
	}
	for _, spec := range again {
		p.planRun(spec)
	}
}

// hasSucceeded reports whether a container has ended well and need not run in a new sandbox.
func (p *planner) hasSucceeded(spec *corev1.Container) bool {
	policy := p.pod.Spec.RestartPolicy
	if spec.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*spec.RestartPolicy)
	}
	last := p.Seen.Latest(spec.Name)
	return policy == corev1.RestartPolicyOnFailure && hasExited(last) && last.GetExitCode() == 0
}

// planEphemeral plans the ephemeral containers that have not run yet. Each runs once and waits for
// nothing.
func (p *planner) planEphemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&p.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if last := p.Seen.Latest(spec.Name); last == nil || p.isCreated(last) {
			p.planRun(spec)
		}
	}
}

// planInit plans the init containers, and reports whether the pod is initialized (upstream's
// computeInitContainerActions). It goes from the last one backwards, because the runtime may have
// lost those that ended.
func (p *planner) planInit() bool {
	specs := p.pod.Spec.InitContainers
	if len(specs) == 0 {
		return true
	}
	begun := p.Seen.HasStartedRegular(p.pod)
	later, initialized := begun, begun // later: a container after this one has begun, so this one was complete once
	var starts []int
	for i, spec := range slices.Backward(specs) {
		last, sidecar := p.Seen.Active(spec.Name), podstate.IsSidecar(&spec)
		if last == nil {
			if later && sidecar {
				starts = append(starts, i)
			}
			continue
		}
		if later && !sidecar {
			continue
		}
		complete, again, failed := p.checkInit(&specs[i], last)
		switch {
		case failed:
			p.plan.KillPod, p.plan.Kills = true, nil
			return false
		case complete && i == len(specs)-1:
			initialized = true
		case complete && !later:
			starts = append(starts, i+1)
		}
		if again {
			starts = append(starts, i)
		}
		later = true
	}
	if !later {
		starts = append(starts, 0)
	}
	for _, i := range slices.Backward(starts) {
		p.planInitStart(i)
	}
	return initialized
}

// checkInit returns, for the last run of an init container: whether the next one may begin, whether
// it starts again, and whether it failed for good.
func (p *planner) checkInit(spec *corev1.Container, last *proto.Container) (complete, again, failed bool) {
	sidecar := podstate.IsSidecar(spec)
	switch {
	case !podstate.Alive(last) && !hasExited(last), hasExited(last) && sidecar:
		return false, true, false
	case hasExited(last) && last.GetExitCode() == 0:
		return true, false, false
	case hasExited(last):
		again = podstate.ShouldStart(p.pod, spec, last)
		return false, again, !again
	case !sidecar:
		return false, false, false
	}
	state := p.probeState(last)
	if state.Failed != nil {
		p.planKill(spec, last, *state.Failed, "Init container %s failed %s probe")
	}
	return state.Started, state.Failed != nil, false
}

// planContainers plans the regular containers. If none runs or will run, the pod is stopped.
func (p *planner) planContainers() {
	kept, before := 0, p.toStart
	for i := range p.pod.Spec.Containers {
		spec := &p.pod.Spec.Containers[i]
		last := p.Seen.Latest(spec.Name)
		if last == nil || !podstate.Alive(last) {
			if podstate.ShouldStart(p.pod, spec, last) {
				p.planRun(spec)
			}
			continue
		}
		state := p.probeState(last)
		if state.Failed == nil {
			kept++
			continue
		}
		message := "Container %s failed %s probe"
		if restartsAfterProbe(p.pod, spec) {
			message += ", will be restarted"
			p.planRun(spec)
		}
		p.planKill(spec, last, *state.Failed, message)
	}
	if kept == 0 && p.toStart == before {
		p.plan = StartPlan{KillPod: true}
	}
}

// restartsAfterProbe reports whether a container that is killed for a probe runs again. Rules for
// exit codes do not apply, because it has no exit code yet.
func restartsAfterProbe(pod *corev1.Pod, spec *corev1.Container) bool {
	if spec.RestartPolicy != nil {
		return *spec.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// probeState returns the state of a running container's probes.
func (p *planner) probeState(c *proto.Container) probes.State {
	if state, told := p.Probes[c.GetId()]; told {
		return state
	}
	return probes.State{Started: true, Ready: true}
}

// planKill plans to stop a container whose startup or liveness probe has failed.
func (p *planner) planKill(spec *corev1.Container, c *proto.Container, kind probes.Kind, message string) {
	reason, name := ReasonLivenessProbe, "liveness"
	if kind == probes.Startup {
		reason, name = ReasonStartupProbe, "startup"
	}
	p.plan.Kills = append(p.plan.Kills, ContainerStop{
		ID: c.GetId(), Name: spec.Name, Grace: BaseGrace(p.pod, spec, reason), PreStop: preStopOf(spec), Why: fmt.Sprintf(message, spec.Name, name),
	})
}

// planInitStart plans the next run of an init container. If it is not a sidecar, nothing after it
// starts until it has succeeded.
func (p *planner) planInitStart(i int) {
	spec := &p.pod.Spec.InitContainers[i]
	if p.planRun(spec) && !podstate.IsSidecar(spec) {
		p.plan.Containers[len(p.plan.Containers)-1].Blocks = true
	}
}

// planRun plans a container's next run or its back-off. It reports whether the container may start
// now. The back-off counts from the last run that has ended: a container being killed for a probe
// counts from its next end.
func (p *planner) planRun(spec *corev1.Container) bool {
	p.toStart++
	start := ContainerStart{Spec: spec}
	if last := p.Seen.Latest(spec.Name); p.isCreated(last) {
		start.Attempt, start.CreatedID = last.GetAttempt(), last.GetId()
	} else if last != nil {
		start.Attempt = last.GetAttempt() + 1
	}
	if before := p.lastEnded(spec.Name); before != nil && start.CreatedID == "" {
		start.Again, start.Finished = true, time.Unix(0, before.GetFinishedAtUnixNano())
	}
	wait := p.Crashes[spec.Name].remaining(start.Finished, p.Now, p.timing)
	if !start.Again || wait == 0 {
		p.plan.Containers = append(p.plan.Containers, start)
		return true
	}
	if p.plan.Waiting == nil {
		p.plan.Waiting = map[string]corev1.ContainerStateWaiting{}
	}
	p.plan.Waiting[spec.Name] = corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)",
			p.Crashes[spec.Name].Delay, spec.Name, p.pod.Name, p.pod.Namespace, p.pod.UID),
	}
	p.plan.limitAfter(wait)
	return false
}

// lastEnded returns the newest run of a container that has ended, or nil.
func (p *planner) lastEnded(name string) *proto.Container {
	for _, c := range p.Seen.Containers {
		if c.GetName() == name && hasExited(c) {
			return c
		}
	}
	return nil
}

// isCreated reports whether a container was created in the present sandbox and can still be
// started.
func (p *planner) isCreated(c *proto.Container) bool {
	return c != nil && c.GetState() == proto.ContainerState_CONTAINER_STATE_CREATED && c.GetSandboxId() == p.Seen.Sandbox().GetId()
}

// limitAfter has a new plan made after this time at the latest.
func (p *StartPlan) limitAfter(after time.Duration) {
	if p.After == 0 || after < p.After {
		p.After = after
	}
}

func hasExited(c *proto.Container) bool {
	return c != nil && c.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED
}
