package mgmt_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/mgmt"
)

// TestClockChange changes the clock of a state at noon, and checks its reading ten seconds later.
func TestClockChange(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		moves []mgmt.ClockChange
		want  time.Duration
		err   string
	}{
		"speed":            {[]mgmt.ClockChange{{Speed: 60}}, mgmt.ClockChangeLead + 60*(10*time.Second-mgmt.ClockChangeLead), ""},
		"pause":            {[]mgmt.ClockChange{{Pause: true}}, mgmt.ClockChangeLead, ""},
		"pause and resume": {[]mgmt.ClockChange{{Pause: true}, {Resume: true}}, 10 * time.Second, ""},
		"step":             {[]mgmt.ClockChange{{Step: time.Hour}}, time.Hour + 10*time.Second, ""},
		"all at once":      {[]mgmt.ClockChange{{Speed: 2, Step: time.Hour, Pause: true}}, time.Hour + mgmt.ClockChangeLead, ""},
		"nothing":          {[]mgmt.ClockChange{{}}, 0, "no field set"},
		"both ways":        {[]mgmt.ClockChange{{Pause: true, Resume: true}}, 0, "pause, resume: want one of them"},
		"back":             {[]mgmt.ClockChange{{Step: -time.Hour}}, 0, "step -1h0m0s: want a duration of more than 0s"},
		"too fast":         {[]mgmt.ClockChange{{Speed: 1e6}}, 0, "speed 1e+06: want a number from 0.001 to 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			schedule, err := clock.NewSchedule(noon, 1)
			if err != nil {
				t.Fatal(err)
			}
			state := mgmt.FaultState{Clock: schedule}
			for _, move := range row.moves {
				if state, err = state.Apply(mgmt.Change{MoveClock: &move}, mgmt.Instant{Wall: noon, Cluster: noon}); err != nil {
					break
				}
			}
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("%v, want %q", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(state)
			if err != nil {
				t.Fatal(err)
			}
			var read mgmt.FaultState
			if err := json.Unmarshal(data, &read); err != nil || read.Clock.Check() != nil {
				t.Fatalf("%s: %v, %v", data, err, read.Clock.Check())
			}
			if got := read.Clock.TimeAt(noon.Add(10 * time.Second)).Sub(noon); got != row.want || read.Revision != uint64(len(row.moves)) {
				t.Errorf("at revision %d it shows %v after 10 s, want %v", read.Revision, got, row.want)
			}
		})
	}
}
