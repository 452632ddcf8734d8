package runtime

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every step of the ladder, by what the call knows.
func TestStopLadder(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return began.Add(d) }
	const timeout = 30 * time.Second
	for name, row := range map[string]struct {
		stand stand
		want  step
		until time.Time
	}{
		"CRI-07 what does not run is stopped": {stand{timeout: timeout, now: began}, stepDone, time.Time{}},
		"also for a caller that is gone":      {stand{gone: true, now: began}, stepDone, time.Time{}},
		"CRI-03 first the stop signal":        {stand{alive: true, timeout: timeout, began: began, now: began}, stepSignal, time.Time{}},
		"CRI-07 which another call may have sent": {
			stand{alive: true, signaled: true, timeout: timeout, began: began, now: began}, stepWait, after(timeout),
		},
		"CRI-03 the wait goes on": {
			stand{alive: true, signaled: true, timeout: timeout, began: began, now: after(timeout - 1)}, stepWait, after(timeout),
		},
		"CRI-03 then SIGKILL": {
			stand{alive: true, signaled: true, timeout: timeout, began: began, now: after(timeout)}, stepKill, time.Time{},
		},
		"CRI-03 without a timeout at once":  {stand{alive: true, began: began, now: began}, stepKill, time.Time{}},
		"CRI-03 a negative timeout is none": {stand{alive: true, timeout: -1, began: began, now: began}, stepKill, time.Time{}},
		"CRI-07 once per call":              {stand{alive: true, killed: true, began: began, now: began}, stepWatch, time.Time{}},
		"CRI-07 no SIGKILL for a caller that is gone": {
			stand{alive: true, signaled: true, gone: true, timeout: timeout, began: began, now: after(timeout)}, stepLeave, time.Time{},
		},
		"CRI-07 nor a wait for one": {stand{alive: true, killed: true, gone: true, began: began, now: began}, stepLeave, time.Time{}},
		"STK-11 a stop that hangs":  {stand{alive: true, unreachable: true, timeout: timeout, began: began, now: began}, stepHang, time.Time{}},
		"STK-11 until it is given up": {
			stand{alive: true, unreachable: true, gone: true, timeout: timeout, began: began, now: began}, stepLeave, time.Time{},
		},
	} {
		got, until := row.stand.next()
		if got != row.want || !until.Equal(row.until) {
			t.Errorf("%s: %v until %v, want %v until %v", name, got, until, row.want, row.until)
		}
	}
}

// Whatever a call knows: nothing is sent to what does not run, cannot be reached or is
// not wanted, no SIGKILL comes before the timeout has passed, and none before the stop
// signal (K2, K3).
func TestStopLadderNeverHurries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		began := time.Unix(0, 0)
		s := stand{
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
		sends := next == stepSignal || next == stepKill
		switch {
		case sends && (!s.alive || s.unreachable || s.gone):
			t.Fatalf("%+v: %v", s, next)
		case next == stepKill && s.timeout > 0 && (!s.signaled || s.now.Sub(began) < s.timeout):
			t.Fatalf("%+v: %v", s, next)
		case next == stepSignal && s.signaled:
			t.Fatalf("%+v: %v", s, next)
		case next == stepWait != until.After(s.now):
			t.Fatalf("%+v: %v until %v", s, next, until)
		case next == stepDone == s.alive:
			t.Fatalf("%+v: %v", s, next)
		}
	})
}
