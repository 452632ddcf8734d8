package simengine_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/simengine"
)

const (
	created = proto.ContainerState_CONTAINER_STATE_CREATED
	running = proto.ContainerState_CONTAINER_STATE_RUNNING
	exited  = proto.ContainerState_CONTAINER_STATE_EXITED
)

var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return origin.Add(time.Duration(s * float64(time.Second))) }

// never is an event that does not happen.
const never = -1

func events(start, stop, kill float64) engine.Events {
	var e engine.Events
	for when, field := range map[*time.Time]float64{&e.Start: start, &e.Stop: stop, &e.Kill: kill} {
		if field != never {
			*when = at(field)
		}
	}
	return e
}

// TestScriptEnds starts a container at 0, and stops and kills it at the row's times. It must be
// RUNNING until just before the row's end and EXITED from then on.
func TestScriptEnds(t *testing.T) {
	for name, row := range map[string]struct {
		script     string
		stop, kill float64
		end        float64
		code       int32
		reason     string
	}{
		"nothing happens":                       {"", never, never, never, 0, ""},
		"TERM by default":                       {"", 10, never, 11, 0, "Completed"},
		"TERM with a code":                      {"on TERM exits 9 after 5s", 10, never, 15, 9, "Error"},
		"TERM ignored":                          {"ignores TERM", 10, never, never, 0, ""},
		"TERM ignored, then KILL":               {"ignores TERM", 10, 40, 40, 137, "Error"},
		"KILL while it ends":                    {"on TERM exits 0 after 1m", 10, 40, 40, 137, "Error"},
		"TERM wins at the same instant":         {"on TERM exits 0 after 30s", 10, 40, 40, 0, "Completed"},
		"KILL alone":                            {"", never, 7, 7, 137, "Error"},
		"its own end":                           {"exits 3 after 20s", never, never, 20, 3, "Error"},
		"its own end before TERM's":             {"exits 3 after 20s, on TERM exits 0 after 15s", 10, never, 20, 3, "Error"},
		"its own end after TERM's":              {"exits 3 after 20s, on TERM exits 0 after 5s", 10, never, 15, 0, "Completed"},
		"OOM":                                   {"OOM after 8s", never, never, 8, 137, "OOMKilled"},
		"slow start":                            {"starts after 5s, exits 0 after 5s", never, never, 10, 0, "Completed"},
		"TERM while it starts":                  {"starts after 5s", 2, never, 6, 0, "Completed"},
		"survives KILL":                         {"ignores TERM, survives KILL", 10, 40, never, 0, ""},
		"survives KILL, ends by itself":         {"ignores TERM, survives KILL, exits 1 after 1m", 10, 40, 60, 1, "Error"},
		"survives KILL for a while":             {"ignores TERM, survives KILL for 1m", 10, 40, 100, 137, "Error"},
		"survives KILL for a while, but starts": {"starts after 20s, survives KILL for 10s", never, 3, 30, 137, "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			script := parse(t, row.script)
			e := events(0, row.stop, row.kill)
			if row.end == never {
				if got := script.StatusAt(e, at(1e6)); got.State != running {
					t.Errorf("in the end it is %v, want RUNNING", got.State)
				}
				return
			}
			before, after := script.StatusAt(e, at(row.end)), script.StatusAt(e, at(1e6))
			if after != before || after.State != exited || after.ExitCode != row.code || after.Reason != row.reason ||
				!after.FinishedAt.Equal(at(row.end)) {
				t.Errorf("it is %+v at its end and %+v later, want EXITED %d %s at %v", before, after, row.code, row.reason, at(row.end))
			}
			last := max(row.end, row.stop, row.kill)
			if got := script.StatusAt(e, at(last-1e-9)); last == row.end && row.stop < last && row.kill < last && got.State == exited {
				t.Errorf("a nanosecond before its end it is %+v", got)
			}
		})
	}
}

// TestScriptStartErrors: a failed start never ran: EXITED 128, without a start time (CRI-11).
func TestScriptStartErrors(t *testing.T) {
	for name, row := range map[string]struct {
		script string
		kill   float64
		end    float64
	}{
		"fails":                        {"fails to start", never, 0},
		"fails slowly":                 {"starts after 5s, fails to start", never, 5},
		"killed first":                 {"starts after 5s", 3, 3},
		"killed before it fails":       {"starts after 5s, fails to start", 3, 3},
		"cannot be killed, but fails":  {"starts after 5s, fails to start, survives KILL", 3, 5},
		"killed after it has failed":   {"starts after 5s, fails to start", 8, 5},
		"killed when it is to fail":    {"starts after 5s, fails to start", 5, 5},
		"killed in the first instants": {"starts after 5s", 0, 0},
	} {
		script := parse(t, row.script)
		got := script.StatusAt(events(0, never, row.kill), at(1e6))
		if got.State != exited || got.ExitCode != 128 || got.Reason != "StartError" || !got.StartedAt.IsZero() ||
			!got.FinishedAt.Equal(at(row.end)) {
			t.Errorf("%s: %+v, want StartError at %v", name, got, at(row.end))
		}
	}
}

func parse(t *testing.T, text string) simengine.Script {
	t.Helper()
	script, err := simengine.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// TestScriptWithClockSetBack: recorded events have happened, even if the clock was set back since.
func TestScriptWithClockSetBack(t *testing.T) {
	if got := parse(t, "").StatusAt(events(100, never, never), at(50)); got.State != running {
		t.Errorf("started, it is %v", got.State)
	}
	if got := parse(t, "").StatusAt(events(100, never, 110), at(50)); got.State != exited {
		t.Errorf("killed, it is %v", got.State)
	}
}

// anyScript draws a script.
func anyScript(t *rapid.T) simengine.Script {
	after := rapid.Map(rapid.IntRange(0, 60), func(s int) time.Duration { return time.Duration(s) * time.Second })
	script := simengine.Script{
		StartAfter:   after.Draw(t, "starts after"),
		FailsToStart: rapid.IntRange(0, 9).Draw(t, "fails to start") == 0,
		SurvivesKill: rapid.IntRange(0, 3).Draw(t, "survives") == 0,
	}
	if script.SurvivesKill {
		script.KillTakes = after.Draw(t, "for")
	}
	if rapid.Bool().Draw(t, "heeds TERM") {
		script.OnTerm = exit(int32(rapid.IntRange(0, 255).Draw(t, "TERM code")), after.Draw(t, "TERM after"), "TERM")
	}
	if rapid.Bool().Draw(t, "ends by itself") {
		script.OwnExit = exit(int32(rapid.IntRange(0, 255).Draw(t, "own code")), after.Draw(t, "own after"), "own")
	}
	return script
}

// TestScriptIsMonotone: events happen in time order, and the state only moves forward.
func TestScriptIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := anyScript(t)
		var e engine.Events
		var last engine.Status
		now := origin
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				setEvent(&e.Start, now)
			case 1: // only what runs is signaled
				if last.State == running {
					setEvent(&e.Stop, now)
				}
			case 2:
				if last.State != exited && !e.Start.IsZero() {
					setEvent(&e.Kill, now)
				}
			}
			status := script.StatusAt(e, now)
			checkStatus(t, moment{script, e, now}, last, status)
			last = status
		}
	})
}

func setEvent(event *time.Time, now time.Time) {
	if event.IsZero() {
		*event = now
	}
}

// moment is the input of one status.
type moment struct {
	script simengine.Script
	events engine.Events
	now    time.Time
}

// checkStatus compares one status and its predecessor with what holds for every status.
func checkStatus(t *rapid.T, m moment, last, status engine.Status) {
	e, now := m.events, m.now
	switch {
	case status.State < last.State:
		t.Fatalf("it was %+v and is %+v", last, status)
	case last.State == exited && status != last:
		t.Fatalf("it had ended as %+v and has now as %+v", last, status)
	case e.Start.IsZero() && status.State != created:
		t.Fatalf("it was not started and is %+v", status)
	case status.State == running && status.StartedAt.After(now):
		t.Fatalf("it runs from %v on", status.StartedAt)
	case status.State == exited && (status.FinishedAt.After(now) || status.FinishedAt.Before(status.StartedAt)):
		t.Fatalf("it ran from %v to %v", status.StartedAt, status.FinishedAt)
	case status.State == exited && status.FinishedAt.Before(e.Start):
		t.Fatalf("it ended at %v and was started at %v", status.FinishedAt, e.Start)
	case !e.Kill.IsZero() && !m.script.SurvivesKill && status.State != exited:
		t.Fatalf("it was sent SIGKILL and is %+v", status)
	}
}

// TestScriptNext: NextChange returns every change: the status is constant until the returned time.
func TestScriptNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := anyScript(t)
		e := events(0, never, never)
		if stop := rapid.IntRange(-1, 60).Draw(t, "stop"); stop >= 0 {
			e.Stop = at(float64(stop))
		}
		if kill := rapid.IntRange(-1, 120).Draw(t, "kill"); kill >= 0 {
			e.Kill = at(float64(kill))
		}
		now := at(float64(rapid.IntRange(120, 240).Draw(t, "now"))) // after all events
		next, ok := script.NextChange(e, now)
		before := script.StatusAt(e, now)
		last := at(1e6)
		if ok {
			last = next.Add(-1)
			if !next.After(now) {
				t.Fatalf("next is %v, now is %v", next, now)
			}
			if script.StatusAt(e, next).State <= before.State {
				t.Fatalf("nothing changes at %v", next)
			}
		}
		if got := script.StatusAt(e, last); got.State != before.State {
			t.Fatalf("it is %+v at %v and %+v at %v, and Next did not say so", before, now, got, last)
		}
	})
}
