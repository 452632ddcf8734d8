package main

import (
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

func TestProgramsNote(t *testing.T) {
	for name, row := range map[string]struct {
		segment clock.Segment
		step    time.Duration
		want    []string
	}{
		"the wall's": {clock.Segment{Speed: 1}, 0, nil},
		"fast":       {clock.Segment{Speed: 60}, 0, []string{"at speed 60 a grace of 30s is 500ms for them"}},
		"slow":       {clock.Segment{Speed: 0.5}, 0, []string{"at speed 0.5 a grace of 30s is 1m0s for them"}},
		"paused":     {clock.Segment{Speed: 1, Paused: true}, 0, []string{"until its grace is over after the resume"}},
		"stepped":    {clock.Segment{Speed: 1}, time.Minute, []string{"within the 1m0s is sent SIGKILL at once"}},
	} {
		got := programsNote(row.segment, row.step)
		if strings.Count(got, "\n") != len(row.want) {
			t.Errorf("%s: %q, want %d lines", name, got, len(row.want))
		}
		for _, want := range row.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q in it", name, got, want)
			}
		}
	}
}

func TestShowClock(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	schedule, err := clock.NewSchedule(noon, 60)
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{
		"":     "TIME                       SPEED   STATE\n2026-01-01T12:00:30.000Z   60      paused\n",
		"json": `"time": "2026-01-01T12:00:30Z"`,
	} {
		var out strings.Builder
		if err := showClock(&out, format, schedule.WithPause(noon.Add(500*time.Millisecond)), noon.Add(time.Hour)); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%q, %v, want %q in it", out.String(), err, want)
		}
	}
}
