package podworker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// StartPlan is what one sync of a pod does, in this order: stop the pod or some containers, remove
// the containers that are reset, create a sandbox, start containers.
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
	// CreatedID is the id of a container that was created already, and may be about to run because
	// an earlier kubelet asked for it; empty for none. Upstream creates another one beside it.
	CreatedID string
	Again     bool
	Finished  time.Time // of its last run
	// Blocks: if this one does not start, the containers after it have to wait.
	Blocks bool
}

// Crashes are the back-offs of containers, by name.
type Crashes map[string]Crash

// Crash is the back-off of one container: Delay after the end of its last run, set at At.
type Crash struct {
	Delay time.Duration
	At    time.Time
}

// CrashTiming is the back-off of restarts: Initial, doubled up to Max.
type CrashTiming struct{ Initial, Max time.Duration }

// remaining returns how long after now a container that ended at finished must wait.
func (c Crash) remaining(finished, now time.Time, t CrashTiming) time.Duration {
	if c.Delay == 0 || now.Sub(c.At) > 2*t.Max {
		return 0
	}
	return min(max(c.Delay-now.Sub(finished), 0), c.Delay) // a wrong clock could leave more
}

// next returns the back-off after a restart at now of a container that ended at finished.
func (c Crash) next(finished, now time.Time, t CrashTiming) Crash {
	if c.Delay == 0 || finished.Sub(c.At) > 2*t.Max {
		return Crash{t.Initial, now}
	}
	return Crash{min(2*c.Delay, t.Max), now}
}

// StartInput is the input of PlanStart beside the pod.
type StartInput struct {
	Seen    podstate.Pod
	Crashes Crashes
	// Probes are the states of probes, by container id. Containers without an entry have started
	// and are healthy.
	Probes map[string]probes.State
	// RestartAll: all containers are to be removed and to start anew.
	RestartAll bool
	Now        time.Time
}

// RecordRestart records that a container is started again at now.
func (c Crashes) RecordRestart(start ContainerStart, now time.Time, t CrashTiming) {
	c[start.Spec.Name] = c[start.Spec.Name].next(start.Finished, now, t)
}

// HoldDelay returns how long a worker waits for back-offs if the first one ends after that time, for
// the n-th time (upstream's completeWork). The wait is capped at the usual resync, and lengthened
// by up to Jitter of itself. It is 0 without a back-off.
func (t Timing) HoldDelay(after time.Duration, seed uint64, uid types.UID, n uint64) time.Duration {
	if after <= 0 {
		return 0
	}
	after = min(after, t.Resync)
	return after + time.Duration(float64(after)*t.Jitter*fraction(seed, uid, n))
}
