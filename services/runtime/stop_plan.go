package runtime

import (
	"time"
)

// Step is one step of stopping a container. Each StopContainer call takes the steps for itself
// (CRI-03, CRI-07):
//
//	signal   send the stop signal, unless this or another call has sent it
//	wait     wait until the call's timeout has passed since it began to wait
//	kill     send SIGKILL, unless the caller has given up
//	watch    wait for the exit as long as the caller waits
//
// The call is done once the container has exited. A call without a timeout starts at kill. Of two
// concurrent calls, the one with the shorter timeout kills first, and both end with the container
// (CRI-09).
type Step int

// The steps.
const (
	// StepDone: the container does not run.
	StepDone Step = iota
	// StepHang: the container cannot be reached. Wait until the caller gives up.
	StepHang
	// StepSignal: send the stop signal.
	StepSignal
	// StepWait: wait for the exit until the returned time.
	StepWait
	// StepKill: send SIGKILL.
	StepKill
	// StepWatch: wait for the exit without a limit.
	StepWatch
	// StepLeave: the caller has given up.
	StepLeave
)

// String returns the step's name.
func (s Step) String() string {
	return [...]string{"done", "hang", "signal", "wait", "kill", "watch", "leave"}[s]
}

// stopState is what a stop call knows when it chooses its next step.
type stopState struct {
	// alive: the container runs or is starting.
	alive bool
	// unreachable: no signal can be sent to the container.
	unreachable bool
	// signaled: the stop signal has been sent, by any call.
	signaled bool
	// killed: this call has sent SIGKILL.
	killed bool
	// gone: the caller has given up.
	gone bool
	// timeout is the call's timeout; 0 or less kills at once.
	timeout time.Duration
	// began is when this call began to wait for the stop signal to take effect.
	began time.Time
	// now is the current time.
	now time.Time
}

// next returns the call's next step, and for StepWait the time when the wait ends.
func (s stopState) next() (Step, time.Time) {
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
