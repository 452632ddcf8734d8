package podworker

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// StartPlan is what one sync of a pod does.
type StartPlan struct {
	// Ended says that no container of the pod will run again.
	Ended bool
	// Sandbox says that a new sandbox is needed first; Attempt is its number.
	Sandbox bool
	Attempt uint32
	// Containers are to be created and started, in order.
	Containers []ContainerStart
	// Kills are containers to be stopped first, for what their probes have found.
	Kills []ContainerStop
	// Waiting are the containers whose restart has to wait, and why.
	Waiting map[string]corev1.ContainerStateWaiting
	// After is how long until the first of them may start; 0 if none waits.
	After time.Duration
}

// ContainerStart is one container to start. Again says that it has run before.
type ContainerStart struct {
	Spec    *corev1.Container
	Attempt uint32
	// Made is the id of one that has been made already, and may be about to run because an
	// earlier kubelet has asked for it; empty for none. Upstream makes another beside it.
	Made     string
	Again    bool
	Finished time.Time // of its last run
}

// Crashes are how long the next restart of each container waits, by name.
type Crashes map[string]Crash

// Crash is the back-off of one container: Delay since its last run ended, set at At.
type Crash struct {
	Delay time.Duration
	At    time.Time
}

// CrashTiming is how restarts are held back: Initial, doubled to Max.
type CrashTiming struct{ Initial, Max time.Duration }

// wait is how long after now a container that ended at finished may start.
func (c Crash) wait(finished, now time.Time, t CrashTiming) time.Duration {
	if c.Delay == 0 || now.Sub(c.At) > 2*t.Max {
		return 0
	}
	return min(max(c.Delay-now.Sub(finished), 0), c.Delay) // more is left where a clock is or was wrong
}

// next is the back-off after a restart at now of a container that ended at finished.
func (c Crash) next(finished, now time.Time, t CrashTiming) Crash {
	if c.Delay == 0 || finished.Sub(c.At) > 2*t.Max {
		return Crash{t.Initial, now}
	}
	return Crash{min(2*c.Delay, t.Max), now}
}

// Standing is what a plan looks at beside the pod.
type Standing struct {
	Seen    podstate.Pod
	Crashes Crashes
	// Failed are the probes for which containers are to be killed, by container id.
	Failed map[string]probes.Kind
	Now    time.Time
}

// PlanStart decides what a pod that is to run lacks: its sandbox, its init containers
// one after the other, its containers, and those to be restarted. Containers that are to
// be killed first are all that it plans.
func PlanStart(pod *corev1.Pod, standing Standing, t CrashTiming) StartPlan {
	p := planner{pod: pod, seen: standing.Seen, crashes: standing.Crashes, timing: t, now: standing.Now}
	if p.plan.Kills = planKills(pod, standing); len(p.plan.Kills) > 0 {
		return p.plan
	}
	p.ephemeral()
	if p.initialize() {
		p.containers()
	}
	if p.plan.Ended {
		p.plan.Containers = nil
	}
	if len(p.plan.Containers) > 0 && p.seen.Sandbox() == nil {
		p.plan.Sandbox = true
		if len(p.seen.Sandboxes) > 0 {
			p.plan.Attempt = p.seen.Sandboxes[0].GetAttempt() + 1
		}
	}
	return p.plan
}

// planKills plans to stop the containers whose startup or liveness probe has failed.
func planKills(pod *corev1.Pod, standing Standing) []ContainerStop {
	var kills []ContainerStop
	for _, c := range standing.Seen.Running() {
		kind, failed := standing.Failed[c.GetId()]
		spec := specOf(pod, c.GetName())
		if !failed || spec == nil {
			continue
		}
		reason := ReasonLivenessProbe
		if kind == probes.Startup {
			reason = ReasonStartupProbe
		}
		kills = append(kills, ContainerStop{
			ID: c.GetId(), Name: c.GetName(), Grace: BaseGrace(pod, spec, reason), PreStop: preStopOf(spec),
			Why: fmt.Sprintf("Container %s failed %s probe, will be restarted", spec.Name, strings.ToLower(kind.String())),
		})
	}
	return kills
}

type planner struct {
	pod     *corev1.Pod
	seen    podstate.Pod
	crashes Crashes
	timing  CrashTiming
	now     time.Time
	plan    StartPlan
}

// ephemeral plans the ephemeral containers that have not run yet: each runs once, and
// waits for nothing.
func (p *planner) ephemeral() {
	for i := range p.pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&p.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if last := p.seen.Latest(spec.Name); last == nil || p.made(last) {
			p.start(spec)
		}
	}
}

// initialize plans the next init container; it reports true when none is left.
func (p *planner) initialize() bool {
	begun := false // a regular container proves that initialization is over
	for _, c := range p.pod.Spec.Containers {
		begun = begun || p.seen.Latest(c.Name) != nil
	}
	for i := range p.pod.Spec.InitContainers {
		spec := &p.pod.Spec.InitContainers[i]
		last := p.seen.Latest(spec.Name)
		sidecar := podstate.Sidecar(spec)
		switch {
		case begun && !sidecar:
		case last == nil:
			p.start(spec)
			return begun
		case podstate.Alive(last):
			if !sidecar {
				return false
			}
		case ended(last) && last.GetExitCode() == 0 && !sidecar:
		case !sidecar && ended(last) && !podstate.Restarts(p.pod, spec, last.GetExitCode()):
			p.plan.Ended = true
			return false
		default:
			p.start(spec)
			return begun
		}
	}
	return true
}

// containers plans the regular containers, and sees whether all have ended for good.
func (p *planner) containers() {
	done := 0
	for i := range p.pod.Spec.Containers {
		spec := &p.pod.Spec.Containers[i]
		last := p.seen.Latest(spec.Name)
		switch {
		case podstate.Alive(last) && last != nil:
		case last != nil && ended(last) && !podstate.Restarts(p.pod, spec, last.GetExitCode()):
			done++
		default:
			p.start(spec)
		}
	}
	p.plan.Ended = done > 0 && done == len(p.pod.Spec.Containers)
}

// start plans a container's next run, or its wait.
func (p *planner) start(spec *corev1.Container) {
	start := ContainerStart{Spec: spec}
	switch last := p.seen.Latest(spec.Name); {
	case last == nil:
	case p.made(last):
		start.Attempt, start.Made = last.GetAttempt(), last.GetId()
	default:
		start.Attempt, start.Again = last.GetAttempt()+1, ended(last)
		start.Finished = time.Unix(0, last.GetFinishedAtUnixNano())
	}
	wait := p.crashes[spec.Name].wait(start.Finished, p.now, p.timing)
	if !start.Again || wait == 0 {
		p.plan.Containers = append(p.plan.Containers, start)
		return
	}
	if p.plan.Waiting == nil {
		p.plan.Waiting = map[string]corev1.ContainerStateWaiting{}
	}
	p.plan.Waiting[spec.Name] = corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)",
			p.crashes[spec.Name].Delay, spec.Name, p.pod.Name, p.pod.Namespace, p.pod.UID),
	}
	p.plan.wait(wait)
}

// made reports whether a container can still be started.
func (p *planner) made(c *proto.Container) bool {
	return c.GetState() == proto.ContainerState_CONTAINER_STATE_CREATED && c.GetSandboxId() == p.seen.Sandbox().GetId()
}

// wait sees to it that the plan is made again after no more than that.
func (p *StartPlan) wait(after time.Duration) {
	if p.After == 0 || after < p.After {
		p.After = after
	}
}

func ended(c *proto.Container) bool {
	return c.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED
}

// Restarted notes that a container is started again at now.
func (c Crashes) Restarted(start ContainerStart, now time.Time, t CrashTiming) {
	c[start.Spec.Name] = c[start.Spec.Name].next(start.Finished, now, t)
}
