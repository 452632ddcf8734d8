package runtime

import (
	"time"
)

// Step is one rung of the ladder that a stop of a container is, which each call climbs for
// itself (CRI-03, CRI-07):
//
//	signal   the stop signal, unless this or another call has sent it before
//	wait     until the call's timeout has passed since it began to wait
//	kill     SIGKILL, unless nobody waits for the call any more
//	watch    for the container to exit, as long as the caller waits
//
// and leaves it, done, once the container has exited. A call without a timeout starts
// at kill. Of two calls at the same time the one with the shorter timeout is the first
// to kill, and both are done when the container exits (CRI-09).
type Step int

// The steps.
const (
	// StepDone says that the container does not run.
	StepDone Step = iota
	// StepHang says that the container cannot be reached: wait for the caller to give up.
	StepHang
	// StepSignal is to send the stop signal.
	StepSignal
	// StepWait is to wait for the exit until the instant that comes with the step.
	StepWait
	// StepKill is to send SIGKILL.
	StepKill
	// StepWatch is to wait for the exit without a limit of our own.
	StepWatch
	// StepLeave says that the caller is gone.
	StepLeave
)

// String is the step's name.
func (s Step) String() string {
	return [...]string{"done", "hang", "signal", "wait", "kill", "watch", "leave"}[s]
}

// stand is what a call knows when it decides on its next step.
type stand struct {
	// alive: the container runs, or is about to.
	alive bool
	// unreachable: no signal can be sent to it.
	unreachable bool
	// signaled: the stop signal has been sent, by any call.
	signaled bool
	// killed: this call has sent SIGKILL.
	killed bool
	// gone: nobody waits for this call any more.
	gone bool
	// timeout is the call's; 0 or less kills at once.
	timeout time.Duration
	// began is when this call began to wait for the stop signal to work.
	began time.Time
	// now is the time.
	now time.Time
}

// next is the next step of a call, and when a StepWait ends.
func (s stand) next() (Step, time.Time) {
	killAt := s.began.Add(s.timeout)
	switch {
	case !s.alive:
		return StepDone, time.Time{}
	case s.gone:
		return StepLeave, time.Time{}
	case s.unreachable:
		return StepHang, time.Time{}
	case s.killed:
		return StepWatch, time.Time{}
	case s.timeout <= 0:
		return StepKill, time.Time{}
	case !s.signaled:
		return StepSignal, time.Time{}
	case s.now.Before(killAt):
		return StepWait, killAt
	}
	return StepKill, time.Time{}
}
