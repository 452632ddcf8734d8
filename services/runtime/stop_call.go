package runtime

import "time"

// Climb is one call's way up the ladder as a value, for who cannot wait on it: a simulator.
// The zero Timeout kills at once.
type Climb struct {
	Timeout time.Duration
	// Began is when the call began to wait for the stop signal to work.
	Began time.Time
	// Killed: this call has sent SIGKILL. Gone: nobody waits for it any more.
	Killed, Gone bool
}

// Target is what a climb knows of its container.
type Target struct {
	// Alive: it runs, or is about to. Unreachable: no signal can be sent to it. Signaled:
	// any call has sent it the stop signal.
	Alive, Unreachable, Signaled bool
}

// Next is the next step of the call, and when a StepWait ends.
func (c Climb) Next(t Target, now time.Time) (Step, time.Time) {
	return stand{
		alive: t.Alive, unreachable: t.Unreachable, signaled: t.Signaled,
		killed: c.Killed, gone: c.Gone, timeout: c.Timeout, began: c.Began, now: now,
	}.next()
}
