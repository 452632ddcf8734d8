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

// planner makes a StartPlan.
type planner struct {
	Standing

	pod    *corev1.Pod
	timing CrashTiming
	plan   StartPlan
	// wanted are the containers that are to start, those that have to wait included.
	wanted int
}

// PlanStart decides what a pod that is to run lacks (upstream's computePodActions): its sandbox,
// its init containers one after the other, its containers, and those to be restarted.
func PlanStart(pod *corev1.Pod, standing Standing, t CrashTiming) StartPlan {
	p := planner{Standing: standing, pod: pod, timing: t}
	if standing.RestartAll {
		p.reset()
		return p.plan
	}
	if needs, attempt, _ := p.Seen.NeedsSandbox(); needs {
		p.replace(attempt)
		return p.plan
	}
	p.ephemeral()
	if p.initialize() && !p.plan.KillPod {
		p.containers()
	}
	return p.plan
}

// reset plans to remove all containers of the pod: first the regular ones, then the init
// containers, and last those that asked for it, so that their exit codes stay for as long.
func (p *planner) reset() {
	var last []Reset
	for _, list := range [][]corev1.Container{p.pod.Spec.Containers, p.pod.Spec.InitContainers} {
		for i := range list {
			for _, c := range p.Seen.Containers {
				if c.GetName() != list[i].Name {
					continue
				}
				reset := Reset{ID: c.GetId(), Name: c.GetName(), Kill: !ended(c)}
				if ended(c) && podstate.TriggersRestartAll(&list[i], c.GetExitCode()) {
					last = append(last, reset)
				} else {
					p.plan.Resets = append(p.plan.Resets, reset)
				}
			}
		}
	}
	p.plan.Resets = append(p.plan.Resets, last...)
}

// replace plans a new sandbox, in which the pod begins from its first init container.
func (p *planner) replace(attempt uint32) {
	p.plan.KillPod = len(p.Seen.Sandboxes) > 0
	if p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever && attempt != 0 && len(p.Seen.Containers) != 0 {
		return
	}
	var again []*corev1.Container
	for i := range p.pod.Spec.Containers {
		if spec := &p.pod.Spec.Containers[i]; !p.runsOnce(spec) {
			again = append(again, spec)
		}
	}
	if len(again) == 0 && slices.ContainsFunc(p.pod.Spec.Containers, func(c corev1.Container) bool { return p.Seen.Latest(c.Name) != nil }) {
		return
	}
	p.plan.Sandbox, p.plan.Attempt = true, attempt
	if len(p.pod.Spec.InitContainers) > 0 {
		p.startInit(0)
		return
	}
	for _, spec := range again {
		p.start(spec)
	}
}

// runsOnce reports whether a container has ended well and need not run in a new sandbox.
func (p *planner) runsOnce(spec *corev1.Container) bool {
	policy := p.pod.Spec.RestartPolicy
	if spec.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*spec.RestartPolicy)
	}
	last := p.Seen.Latest(spec.Name)
	return policy == corev1.RestartPolicyOnFailure && ended(last) && last.GetExitCode() == 0
}

// ephemeral plans the ephemeral containers that have not run yet: each runs once, and waits for
// nothing.
func (p *planner) ephemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&p.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if last := p.Seen.Latest(spec.Name); last == nil || p.made(last) {
			p.start(spec)
		}
	}
}

// initialize plans the init containers, and reports whether the pod has been initialized (upstream's
// computeInitContainerActions). It looks from the last one back, because the runtime may have
// lost those that have ended.
func (p *planner) initialize() bool {
	specs := p.pod.Spec.InitContainers
	if len(specs) == 0 {
		return true
	}
	begun := p.Seen.Begun(p.pod)
	later, initialized := begun, begun // later: one after this has begun, so that this was complete once
	var starts []int
	for i, spec := range slices.Backward(specs) {
		last, sidecar := p.Seen.Active(spec.Name), podstate.Sidecar(&spec)
		if last == nil {
			if later && sidecar {
				starts = append(starts, i)
			}
			continue
		}
		if later && !sidecar {
			continue
		}
		complete, again, failed := p.judge(&specs[i], last)
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
		p.startInit(i)
	}
	return initialized
}

// judge looks at the run of an init container: whether it lets the next one begin, whether it is to
// start again, and whether it has failed for good.
func (p *planner) judge(spec *corev1.Container, last *proto.Container) (complete, again, failed bool) {
	sidecar := podstate.Sidecar(spec)
	switch {
	case !podstate.Alive(last) && !ended(last), ended(last) && sidecar:
		return false, true, false
	case ended(last) && last.GetExitCode() == 0:
		return true, false, false
	case ended(last):
		again = podstate.Startable(p.pod, spec, last)
		return false, again, !again
	case !sidecar:
		return false, false, false
	}
	state := p.probed(last)
	if state.Failed != nil {
		p.kill(spec, last, *state.Failed, "Init container %s failed %s probe")
	}
	return state.Started, state.Failed != nil, false
}

// containers plans the regular containers. If none of them runs or is to run, the pod is stopped.
func (p *planner) containers() {
	kept, before := 0, p.wanted
	for i := range p.pod.Spec.Containers {
		spec := &p.pod.Spec.Containers[i]
		last := p.Seen.Latest(spec.Name)
		if last == nil || !podstate.Alive(last) {
			if podstate.Startable(p.pod, spec, last) {
				p.start(spec)
			}
			continue
		}
		state := p.probed(last)
		if state.Failed == nil {
			kept++
			continue
		}
		message := "Container %s failed %s probe"
		if restartsAfterProbe(p.pod, spec) {
			message += ", will be restarted"
			p.start(spec)
		}
		p.kill(spec, last, *state.Failed, message)
	}
	if kept == 0 && p.wanted == before {
		p.plan = StartPlan{KillPod: true}
	}
}

// restartsAfterProbe reports whether a container runs again that is killed for a probe: rules for
// exit codes do not count, as it has none yet.
func restartsAfterProbe(pod *corev1.Pod, spec *corev1.Container) bool {
	if spec.RestartPolicy != nil {
		return *spec.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// probed is what the probes say of a container that runs.
func (p *planner) probed(c *proto.Container) probes.State {
	if state, told := p.Probed[c.GetId()]; told {
		return state
	}
	return probes.State{Started: true, Ready: true}
}

// kill plans to stop a container whose startup or liveness probe has failed.
func (p *planner) kill(spec *corev1.Container, c *proto.Container, kind probes.Kind, message string) {
	reason, name := ReasonLivenessProbe, "liveness"
	if kind == probes.Startup {
		reason, name = ReasonStartupProbe, "startup"
	}
	p.plan.Kills = append(p.plan.Kills, ContainerStop{
		ID: c.GetId(), Name: spec.Name, Grace: BaseGrace(p.pod, spec, reason), PreStop: preStopOf(spec), Why: fmt.Sprintf(message, spec.Name, name),
	})
}

// startInit plans the next run of an init container. Without an ordinary one nothing after it starts.
func (p *planner) startInit(i int) {
	spec := &p.pod.Spec.InitContainers[i]
	if p.start(spec) && !podstate.Sidecar(spec) {
		p.plan.Containers[len(p.plan.Containers)-1].Blocks = true
	}
}

// start plans a container's next run, or its wait; it reports whether it may start now. How long
// a container waits goes by its last run that has ended: one that is being killed for a probe
// counts from its next end on.
func (p *planner) start(spec *corev1.Container) bool {
	p.wanted++
	start := ContainerStart{Spec: spec}
	if last := p.Seen.Latest(spec.Name); p.made(last) {
		start.Attempt, start.Made = last.GetAttempt(), last.GetId()
	} else if last != nil {
		start.Attempt = last.GetAttempt() + 1
	}
	if before := p.ended(spec.Name); before != nil && start.Made == "" {
		start.Again, start.Finished = true, time.Unix(0, before.GetFinishedAtUnixNano())
	}
	wait := p.Crashes[spec.Name].wait(start.Finished, p.Now, p.timing)
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
	p.plan.wait(wait)
	return false
}

// ended is the newest run of a container that has ended, or nil.
func (p *planner) ended(name string) *proto.Container {
	for _, c := range p.Seen.Containers {
		if c.GetName() == name && ended(c) {
			return c
		}
	}
	return nil
}

// made reports whether a container can still be started.
func (p *planner) made(c *proto.Container) bool {
	return c != nil && c.GetState() == proto.ContainerState_CONTAINER_STATE_CREATED && c.GetSandboxId() == p.Seen.Sandbox().GetId()
}

// wait sees to it that the plan is made again after no more than that.
func (p *StartPlan) wait(after time.Duration) {
	if p.After == 0 || after < p.After {
		p.After = after
	}
}

func ended(c *proto.Container) bool {
	return c != nil && c.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED
}
