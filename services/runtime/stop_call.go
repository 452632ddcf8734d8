package runtime

import "time"

// StopCall is the state of one StopContainer call as a value, for simulators that cannot block. A
// zero Timeout kills at once.
type StopCall struct {
	Timeout time.Duration
	// Began is when the call began to wait for the stop signal to take effect.
	Began time.Time
	// Killed: this call has sent SIGKILL. Gone: the caller has given up.
	Killed, Gone bool
}

// StopTarget is what a StopCall knows about its container.
type StopTarget struct {
	// Alive: the container runs or is starting. Unreachable: no signal can be sent to it. Signaled:
	// some call has sent the stop signal.
	Alive, Unreachable, Signaled bool
}

// Next returns the call's next step, and for StepWait the time when the wait ends.
func (c StopCall) Next(t StopTarget, now time.Time) (Step, time.Time) {
	return stopState{
		alive: t.Alive, unreachable: t.Unreachable, signaled: t.Signaled,
		killed: c.Killed, gone: c.Gone, timeout: c.Timeout, began: c.Began, now: now,
	}.next()
}
