package podworker

import (
	"fmt"
	"time"

	"github.com/podfall/podfall/proto"
)

// Attempt is one attempt to carry out a StopPlan, pure: Work says what is to be done now,
// and Step takes what came of it.
//
//	each container    Hook ──▶ Await its turn ──▶ StopContainer     what it does not need is left out
//	then each sandbox StopBox                                       in turn, even if a container failed (KBL-32)
//
// When it is because the runtime is away, or says nothing, that a container could not be stopped,
// the attempt ends there. A runtime that comes back just then would otherwise be asked to stop the
// sandbox first, and end what runs in it by SIGKILL without a stop signal (K2).
type Attempt struct {
	rungs     []rung
	sandboxes []string
	failed    error // the last sandbox that failed
	work      []Work
	over      bool
}

// rung is how far the stop of one container is.
type rung struct {
	ContainerStop

	at    rungState
	began time.Time // of what it is at
	// spent is what of the grace hooks and waiting have used up, in whole seconds.
	spent time.Duration
	err   error
}

type rungState int

const (
	inHook rungState = iota
	inTurn
	inStop
	stopped
	notStopped
)

// Work is what an attempt wants done. Each is answered by the Outcome of the same name,
// in any order.
//
//sumtype:decl
type Work interface{ isWork() }

type (
	// Hook runs the container's preStop hook, for at most its Grace.
	Hook struct{ Container int }
	// Await waits until the instant; the attempt may go on without it.
	Await struct {
		Container int
		Until     time.Time
	}
	// StopOne stops a container; Timeout is in seconds.
	StopOne struct {
		Container int
		ID        string
		Timeout   int64
	}
	// StopBox stops a sandbox.
	StopBox struct{ ID string }
)

func (Hook) isWork()    {}
func (Await) isWork()   {}
func (StopOne) isWork() {}
func (StopBox) isWork() {}

// Outcome is what came of a Work.
//
//sumtype:decl
type Outcome interface{ isOutcome() }

type (
	// HookOver says that the hook has ended, or that its time is up.
	HookOver struct{ Container int }
	// AwaitOver says that the instant has come.
	AwaitOver struct{ Container int }
	// OneStopped is the runtime's answer about a container.
	OneStopped struct {
		Container int
		Err       error
	}
	// BoxStopped is the runtime's answer about a sandbox.
	BoxStopped struct{ Err error }
)

func (HookOver) isOutcome()   {}
func (AwaitOver) isOutcome()  {}
func (OneStopped) isOutcome() {}
func (BoxStopped) isOutcome() {}

// NewAttempt begins to carry out a plan.
func NewAttempt(plan StopPlan, now time.Time) *Attempt {
	a := &Attempt{sandboxes: plan.Sandboxes, rungs: make([]rung, 0, len(plan.Containers))}
	for _, stop := range plan.Containers {
		a.rungs = append(a.rungs, rung{ContainerStop: stop, began: now})
	}
	for i := range a.rungs {
		switch r := &a.rungs[i]; {
		case r.Err != nil:
			r.at, r.err = notStopped, r.Err
		case r.PreStop != nil && r.Grace > 0:
			a.want(Hook{i})
		default:
			a.turn(i, now)
		}
	}
	a.proceed()
	return a
}

// Work is what is to be done now, and has not been handed out before.
func (a *Attempt) Work() []Work {
	work := a.work
	a.work = nil
	return work
}

// Over reports whether all has been done; then Err is what went wrong, in upstream's
// words (KBL-31).
func (a *Attempt) Over() bool { return a.over }

// Err is what went wrong so far; nil for nothing.
func (a *Attempt) Err(uid string) error {
	errs := make([]error, 0, len(a.rungs)+1)
	for i := range a.rungs {
		if r := &a.rungs[i]; r.err != nil {
			errs = append(errs, fmt.Errorf("failed to \"KillContainer\" for %q with KillContainerError: %q", r.Name, r.err.Error()))
		}
	}
	if a.failed != nil {
		errs = append(errs, fmt.Errorf("failed to \"KillPodSandbox\" for %q with KillPodSandboxError: %q", uid, a.failed.Error()))
	}
	return bracketed(errs)
}

// Step takes what came of a work.
func (a *Attempt) Step(o Outcome, now time.Time) {
	switch o := o.(type) {
	case HookOver:
		r := &a.rungs[o.Container]
		r.spent = now.Sub(r.began).Truncate(time.Second)
		a.turn(o.Container, now)
	case AwaitOver:
		if a.rungs[o.Container].at == inTurn {
			a.stop(o.Container, now)
		}
	case OneStopped:
		a.stopped(o.Container, o.Err, now)
	case BoxStopped:
		if o.Err != nil && !proto.IsRuntimeCode(o.Err, proto.CodeNotFound) {
			a.failed = o.Err
		}
		a.sandboxes = a.sandboxes[1:]
		a.over = len(a.sandboxes) == 0
		if !a.over {
			a.want(StopBox{a.sandboxes[0]})
		}
		return
	}
	a.proceed()
}

func (a *Attempt) want(work Work) { a.work = append(a.work, work) }

// turn has a container wait for those that are stopped before it, as long as its grace
// lasts (KBL-50).
func (a *Attempt) turn(i int, now time.Time) {
	r := &a.rungs[i]
	r.at, r.began = inTurn, now
	left := time.Duration(r.Grace)*time.Second - r.spent
	if left <= 0 || a.reached(r) {
		a.stop(i, now)
		return
	}
	a.want(Await{i, now.Add(left)})
}

// reached reports whether all that a container waits for have been stopped. One that
// could not be keeps its successors waiting (KBL-52).
func (a *Attempt) reached(r *rung) bool {
	for _, name := range r.After {
		for i := range a.rungs {
			if other := &a.rungs[i]; other.Name == name && other.at != stopped {
				return false
			}
		}
	}
	return true
}

// stop has the runtime stop a container with what is left of its grace (KBL-33).
func (a *Attempt) stop(i int, now time.Time) {
	r := &a.rungs[i]
	r.spent += now.Sub(r.began).Truncate(time.Second)
	r.at = inStop
	a.want(StopOne{i, r.ID, StopTimeout(r.Grace, nil, r.spent)})
}

func (a *Attempt) stopped(i int, err error, now time.Time) {
	r := &a.rungs[i]
	if err != nil && !proto.IsRuntimeCode(err, proto.CodeNotFound) {
		r.at, r.err = notStopped, err
		return
	}
	r.at = stopped
	for next := range a.rungs {
		if other := &a.rungs[next]; other.at == inTurn && a.reached(other) {
			a.stop(next, now)
		}
	}
}

// proceed goes on to the sandboxes once every container has been stopped, or could not
// be.
func (a *Attempt) proceed() {
	away := false
	for i := range a.rungs {
		if a.rungs[i].at < stopped {
			return
		}
		away = away || proto.IsRuntimeUnavailable(a.rungs[i].err)
	}
	if away || len(a.sandboxes) == 0 {
		a.over = true
		return
	}
	a.want(StopBox{a.sandboxes[0]})
}
