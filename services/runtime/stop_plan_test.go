package runtime

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNextStep covers every Step by what the call knows.
func TestNextStep(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return began.Add(d) }
	const timeout = 30 * time.Second
	for name, row := range map[string]struct {
		stand stopState
		want  Step
		until time.Time
	}{
		"CRI-07 what does not run is stopped": {stopState{timeout: timeout, now: began}, StepDone, time.Time{}},
		"also for a caller that is gone":      {stopState{gone: true, now: began}, StepDone, time.Time{}},
		"CRI-03 first the stop signal":        {stopState{alive: true, timeout: timeout, began: began, now: began}, StepSignal, time.Time{}},
		"CRI-07 which another call may have sent": {
			stopState{alive: true, signaled: true, timeout: timeout, began: began, now: began}, StepWait, after(timeout),
		},
		"CRI-03 the wait goes on": {
			stopState{alive: true, signaled: true, timeout: timeout, began: began, now: after(timeout - 1)}, StepWait, after(timeout),
		},
		"CRI-03 then SIGKILL": {
			stopState{alive: true, signaled: true, timeout: timeout, began: began, now: after(timeout)}, StepKill, time.Time{},
		},
		"CRI-03 without a timeout at once":  {stopState{alive: true, began: began, now: began}, StepKill, time.Time{}},
		"CRI-03 a negative timeout is none": {stopState{alive: true, timeout: -1, began: began, now: began}, StepKill, time.Time{}},
		"CRI-07 once per call":              {stopState{alive: true, killed: true, began: began, now: began}, StepWatch, time.Time{}},
		"CRI-07 no SIGKILL for a caller that is gone": {
			stopState{alive: true, signaled: true, gone: true, timeout: timeout, began: began, now: after(timeout)}, StepLeave, time.Time{},
		},
		"CRI-07 nor a wait for one": {stopState{alive: true, killed: true, gone: true, began: began, now: began}, StepLeave, time.Time{}},
		"STK-11 a stop that hangs":  {stopState{alive: true, unreachable: true, timeout: timeout, began: began, now: began}, StepHang, time.Time{}},
		"STK-11 until it is given up": {
			stopState{alive: true, unreachable: true, gone: true, timeout: timeout, began: began, now: began}, StepLeave, time.Time{},
		},
	} {
		got, until := row.stand.next()
		if got != row.want || !until.Equal(row.until) {
			t.Errorf("%s: %v until %v, want %v until %v", name, got, until, row.want, row.until)
		}
	}
}

// TestNextStepNeverKillsEarly checks every stopState: no step signals a container that does not
// run, cannot be reached or is not wanted. No SIGKILL comes before the timeout has passed or before
// the stop signal (K2, K3).
func TestNextStepNeverKillsEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		began := time.Unix(0, 0)
		s := stopState{
			alive:       rapid.Bool().Draw(t, "alive"),
			unreachable: rapid.Bool().Draw(t, "unreachable"),
			signaled:    rapid.Bool().Draw(t, "signaled"),
			killed:      rapid.Bool().Draw(t, "killed"),
			gone:        rapid.Bool().Draw(t, "gone"),
			timeout:     time.Duration(rapid.IntRange(-2, 5).Draw(t, "timeout")),
			began:       began,
			now:         began.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "now"))),
		}
		next, until := s.next()
		sends := next == StepSignal || next == StepKill
		switch {
		case sends && (!s.alive || s.unreachable || s.gone):
			t.Fatalf("%+v: %v", s, next)
		case next == StepKill && s.timeout > 0 && (!s.signaled || s.now.Sub(began) < s.timeout):
			t.Fatalf("%+v: %v", s, next)
		case next == StepSignal && s.signaled:
			t.Fatalf("%+v: %v", s, next)
		case next == StepWait != until.After(s.now):
			t.Fatalf("%+v: %v until %v", s, next, until)
		case next == StepDone == s.alive:
			t.Fatalf("%+v: %v", s, next)
		}
	})
}
