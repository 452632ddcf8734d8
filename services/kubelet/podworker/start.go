package podworker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// StartPlan is what one sync of a pod does, in this order: stop the pod or some containers, remove
// those that are reset, make a sandbox, start containers.
type StartPlan struct {
	// KillPod: everything of the pod is stopped first, because it has ended or because its
	// sandbox is replaced. Sandbox: a new one is needed, with the number Attempt.
	KillPod, Sandbox bool
	Attempt          uint32
	// Kills are containers that their probes have failed. Resets are removed, because all
	// containers restart; nothing is started beside them.
	Kills  []ContainerStop
	Resets []Reset
	// Containers are to be created and started, in order.
	Containers []ContainerStart
	// Waiting are the containers whose restart has to wait, and why.
	Waiting map[string]corev1.ContainerStateWaiting
	// After is how long until the first of them may start; 0 if none waits.
	After time.Duration
}

// Starts reports whether the plan starts anything.
func (p *StartPlan) Starts() bool { return p.Sandbox || len(p.Containers) > 0 }

// Reset is a container that is removed from the runtime; Kill says that it may run.
type Reset struct {
	ID, Name string
	Kill     bool
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
	// Blocks: if this one does not start, the containers after it have to wait.
	Blocks bool
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
	// Probed is what the probes say of running containers, by container id; a container that is
	// not in it has started and is well.
	Probed map[string]probes.State
	// RestartAll: all containers are to be removed and to start anew.
	RestartAll bool
	Now        time.Time
}

// Restarted notes that a container is started again at now.
func (c Crashes) Restarted(start ContainerStart, now time.Time, t CrashTiming) {
	c[start.Spec.Name] = c[start.Spec.Name].next(start.Finished, now, t)
}

// Hold is how long a worker waits for back-offs of which the first ends after a while, for the n-th
// time (upstream's completeWork): no longer than the usual resync, and spread over half of that.
func (t Timing) Hold(after time.Duration, seed uint64, uid types.UID, n uint64) time.Duration {
	if after <= 0 {
		return 0
	}
	after = min(after, t.Resync)
	return after + time.Duration(float64(after)*t.Jitter*fraction(seed, uid, n))
}
