package runtime

import (
	"time"
)

// A stop of a container is a ladder, which each call climbs for itself (CRI-03, CRI-07):
//
//	signal   the stop signal, unless this or another call has sent it before
//	wait     until the call's timeout has passed since it began to wait
//	kill     SIGKILL, unless nobody waits for the call any more
//	watch    for the container to exit, as long as the caller waits
//
// and leaves it, done, once the container has exited. A call without a timeout starts
// at kill. Of two calls at the same time the one with the shorter timeout is the first
// to kill, and both are done when the container exits (CRI-09).
type step int

const (
	// stepDone: the container does not run.
	stepDone step = iota
	// stepHang: the container cannot be reached; wait for the caller to give up.
	stepHang
	// stepSignal: send the stop signal.
	stepSignal
	// stepWait: wait for the exit until the instant that comes with the step.
	stepWait
	// stepKill: send SIGKILL.
	stepKill
	// stepWatch: wait for the exit without a limit of our own.
	stepWatch
	// stepLeave: the caller is gone.
	stepLeave
)

// String is the step's name.
func (s step) String() string {
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

// next is the next step of a call, and when a stepWait ends.
func (s stand) next() (step, time.Time) {
	killAt := s.began.Add(s.timeout)
	switch {
	case !s.alive:
		return stepDone, time.Time{}
	case s.gone:
		return stepLeave, time.Time{}
	case s.unreachable:
		return stepHang, time.Time{}
	case s.killed:
		return stepWatch, time.Time{}
	case s.timeout <= 0:
		return stepKill, time.Time{}
	case !s.signaled:
		return stepSignal, time.Time{}
	case s.now.Before(killAt):
		return stepWait, killAt
	}
	return stepKill, time.Time{}
}
