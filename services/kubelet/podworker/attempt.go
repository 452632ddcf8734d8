package podworker

import (
	"fmt"
	"time"

	"github.com/podfall/podfall/proto"
)

// Attempt carries out a StopPlan once. It is pure: Work returns what is to be done now, and Step
// takes an outcome.
//
//	each container    RunHook ──▶ AwaitTurn ──▶ StopContainer   steps that it does not need are left out
//	then each sandbox StopSandbox                               one after the other, even if a container failed (KBL-32)
//
// If a container could not be stopped because the runtime is unreachable or does not answer, the
// attempt ends there. Otherwise a runtime that returns just then would be asked to stop the sandbox
// first, and would end its containers by SIGKILL without a stop signal (K2).
type Attempt struct {
	stops      []containerStopState
	sandboxes  []string
	sandboxErr error // sandboxErr is the error of the last sandbox that failed.
	work       []Work
	over       bool
}

// containerStopState is the progress of the stop of one container.
type containerStopState struct {
	ContainerStop

	phase      stopPhase
	phaseBegan time.Time // phaseBegan is when the present phase began.
	// spent is the part of the grace that hooks and waiting have used, in whole seconds.
	spent time.Duration
	err   error
}

// stopPhase is a step of the stop of one container.
type stopPhase int

const (
	hookRunning stopPhase = iota
	awaitingTurn
	stopRequested
	stopSucceeded
	stopFailed
)

// Work is one thing that an attempt wants done. Each is answered by an Outcome, in any order:
// RunHook by HookEnded, AwaitTurn by TurnTimedOut, StopContainer by ContainerStopped, StopSandbox
// by SandboxStopped.
//
//sumtype:decl
type Work interface{ isWork() }

type (
	// RunHook runs the container's preStop hook for at most its Grace.
	RunHook struct{ Container int }
	// AwaitTurn waits until the instant at which the container's grace is over. The attempt may
	// continue without it.
	AwaitTurn struct {
		Container int
		Until     time.Time
	}
	// StopContainer stops a container. Timeout is in seconds.
	StopContainer struct {
		Container int
		ID        string
		Timeout   int64
	}
	// StopSandbox stops a sandbox.
	StopSandbox struct{ ID string }
)

func (RunHook) isWork()       {}
func (AwaitTurn) isWork()     {}
func (StopContainer) isWork() {}
func (StopSandbox) isWork()   {}

// Outcome is the result of a Work.
//
//sumtype:decl
type Outcome interface{ isOutcome() }

type (
	// HookEnded says that the hook has ended or that its time is up.
	HookEnded struct{ Container int }
	// TurnTimedOut says that the instant of AwaitTurn has come.
	TurnTimedOut struct{ Container int }
	// ContainerStopped is the runtime's answer about a container.
	ContainerStopped struct {
		Container int
		Err       error
	}
	// SandboxStopped is the runtime's answer about a sandbox.
	SandboxStopped struct{ Err error }
)

func (HookEnded) isOutcome()        {}
func (TurnTimedOut) isOutcome()     {}
func (ContainerStopped) isOutcome() {}
func (SandboxStopped) isOutcome()   {}

// NewAttempt begins to carry out a plan.
func NewAttempt(plan StopPlan, now time.Time) *Attempt {
	a := &Attempt{sandboxes: plan.Sandboxes, stops: make([]containerStopState, 0, len(plan.Containers))}
	for _, stop := range plan.Containers {
		a.stops = append(a.stops, containerStopState{ContainerStop: stop, phaseBegan: now})
	}
	for i := range a.stops {
		switch r := &a.stops[i]; {
		case r.Err != nil:
			r.phase, r.err = stopFailed, r.Err
		case r.PreStop != nil && r.Grace > 0:
			a.addWork(RunHook{i})
		default:
			a.awaitTurn(i, now)
		}
	}
	a.stopSandboxes()
	return a
}

// Work returns what is to be done now and has not been returned before.
func (a *Attempt) Work() []Work {
	work := a.work
	a.work = nil
	return work
}

// Over reports whether everything has been done. Then Err is final.
func (a *Attempt) Over() bool { return a.over }

// Err returns the errors so far in upstream's words (KBL-31), or nil.
func (a *Attempt) Err(uid string) error {
	errs := make([]error, 0, len(a.stops)+1)
	for i := range a.stops {
		if r := &a.stops[i]; r.err != nil {
			errs = append(errs, fmt.Errorf("failed to \"KillContainer\" for %q with KillContainerError: %q", r.Name, r.err.Error()))
		}
	}
	if a.sandboxErr != nil {
		errs = append(errs, fmt.Errorf("failed to \"KillPodSandbox\" for %q with KillPodSandboxError: %q", uid, a.sandboxErr.Error()))
	}
	return joinErrors(errs)
}

// Step takes the outcome of a work.
func (a *Attempt) Step(o Outcome, now time.Time) {
	switch o := o.(type) {
	case HookEnded:
		r := &a.stops[o.Container]
		r.spent = now.Sub(r.phaseBegan).Truncate(time.Second)
		a.awaitTurn(o.Container, now)
	case TurnTimedOut:
		if a.stops[o.Container].phase == awaitingTurn {
			a.requestStop(o.Container, now)
		}
	case ContainerStopped:
		a.recordStop(o.Container, o.Err, now)
	case SandboxStopped:
		if o.Err != nil && !proto.IsRuntimeCode(o.Err, proto.CodeNotFound) {
			a.sandboxErr = o.Err
		}
		a.sandboxes = a.sandboxes[1:]
		a.over = len(a.sandboxes) == 0
		if !a.over {
			a.addWork(StopSandbox{a.sandboxes[0]})
		}
		return
	}
	a.stopSandboxes()
}

func (a *Attempt) addWork(work Work) { a.work = append(a.work, work) }

// awaitTurn makes a container wait for the containers that stop before it, no longer than its grace
// (KBL-50).
func (a *Attempt) awaitTurn(i int, now time.Time) {
	r := &a.stops[i]
	r.phase, r.phaseBegan = awaitingTurn, now
	left := time.Duration(r.Grace)*time.Second - r.spent
	if left <= 0 || a.hasTurn(r) {
		a.requestStop(i, now)
		return
	}
	a.addWork(AwaitTurn{i, now.Add(left)})
}

// hasTurn reports whether all containers that this one waits for have been stopped. A container
// that could not be stopped keeps its successors waiting (KBL-52).
func (a *Attempt) hasTurn(r *containerStopState) bool {
	for _, name := range r.After {
		for i := range a.stops {
			if other := &a.stops[i]; other.Name == name && other.phase != stopSucceeded {
				return false
			}
		}
	}
	return true
}

// requestStop asks the runtime to stop a container with the rest of its grace (KBL-33).
func (a *Attempt) requestStop(i int, now time.Time) {
	r := &a.stops[i]
	r.spent += now.Sub(r.phaseBegan).Truncate(time.Second)
	r.phase = stopRequested
	a.addWork(StopContainer{i, r.ID, StopTimeout(r.Grace, nil, r.spent)})
}

// recordStop takes the runtime's answer about a container, and stops the containers that waited for
// it.
func (a *Attempt) recordStop(i int, err error, now time.Time) {
	r := &a.stops[i]
	if err != nil && !proto.IsRuntimeCode(err, proto.CodeNotFound) {
		r.phase, r.err = stopFailed, err
		return
	}
	r.phase = stopSucceeded
	for next := range a.stops {
		if other := &a.stops[next]; other.phase == awaitingTurn && a.hasTurn(other) {
			a.requestStop(next, now)
		}
	}
}

// stopSandboxes begins with the sandboxes once every container was stopped or failed.
func (a *Attempt) stopSandboxes() {
	away := false
	for i := range a.stops {
		if a.stops[i].phase < stopSucceeded {
			return
		}
		away = away || proto.IsRuntimeUnavailable(a.stops[i].err)
	}
	if away || len(a.sandboxes) == 0 {
		a.over = true
		return
	}
	a.addWork(StopSandbox{a.sandboxes[0]})
}
