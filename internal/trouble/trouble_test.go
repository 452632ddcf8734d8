package trouble

import (
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/partition"
)

// TestDiff checks what ends and begins between two states.
func TestDiff(t *testing.T) {
	start := time.Unix(0, 0)
	face, err := clock.NewSchedule(start, 1)
	if err != nil {
		t.Fatal(err)
	}
	stepped, err := face.WithStep(start.Add(time.Minute), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	paused := face.WithPause(start.Add(time.Minute))
	parties := partition.Members([]string{"n1"})
	cut := partition.Cut{Name: "c", Spec: partition.Spec{Members: []string{"n1"}}}
	held := cut
	held.Lease = &partition.Lease{Holder: "h", Expires: start}
	broken := fault.Fault{Name: "f", Since: start}
	again := fault.Fault{Name: "f", Since: start.Add(time.Second)}
	state := func(faces clock.Schedule, cuts []partition.Cut, faults ...fault.Fault) State {
		return State{Clock: faces, Members: parties, Cuts: cuts, Faults: faults}
	}
	for what, c := range map[string]struct {
		from, to     State
		ends, begins int
	}{
		"nothing":              {State{}, state(face, nil), 0, 0},
		"a cut":                {state(face, nil), state(face, []partition.Cut{cut}), 0, 1},
		"a lease is renewed":   {state(face, []partition.Cut{cut}), state(face, []partition.Cut{held}), 0, 0},
		"a heal":               {state(face, []partition.Cut{cut}), state(face, nil), 1, 0},
		"another of that name": {state(face, nil, broken), state(face, nil, again), 1, 1},
		"a jump":               {state(face, nil), state(stepped, nil), 1, 1},
		"a pause":              {state(face, nil), state(paused, nil), 0, 1},
		"a pause is over":      {state(paused, nil), state(paused.WithResume(start.Add(time.Hour)), nil), 1, 0},
	} {
		ends, begins := Diff(c.from, c.to)
		if len(ends) != c.ends || len(begins) != c.begins {
			t.Errorf("%s: ends %v, begins %v; want %d and %d", what, ends, begins, c.ends, c.begins)
		}
	}
	if _, begins := Diff(state(face, nil), state(face, []partition.Cut{cut})); len(begins[0].CutOff) != 1 || len(begins[0].Arguments) == 0 {
		t.Errorf("%+v; want who is cut off, and all of the cut", begins[0])
	}
}
