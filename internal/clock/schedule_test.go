package clock

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"
)

// noon is where the wall time and every schedule of these tables begin.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func afterNoon(d time.Duration) time.Time { return noon.Add(d) }

// testSchedule returns a schedule that starts at noon at speed 1, with changes.
func testSchedule(t *testing.T, changes ...func(Schedule) Schedule) Schedule {
	t.Helper()
	f, err := NewSchedule(noon, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		f = change(f)
	}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	return f
}

func speedAt(at time.Duration, speed float64) func(Schedule) Schedule {
	return func(f Schedule) Schedule {
		f, err := f.WithSpeed(afterNoon(at), speed)
		if err != nil {
			panic(err)
		}
		return f
	}
}

func pauseAt(at time.Duration) func(Schedule) Schedule {
	return func(f Schedule) Schedule { return f.WithPause(afterNoon(at)) }
}

func resumeAt(at time.Duration) func(Schedule) Schedule {
	return func(f Schedule) Schedule { return f.WithResume(afterNoon(at)) }
}

func stepAt(at, d time.Duration) func(Schedule) Schedule {
	return func(f Schedule) Schedule {
		f, err := f.WithStep(afterNoon(at), d)
		if err != nil {
			panic(err)
		}
		return f
	}
}

// never marks a time that the schedule does not reach.
const never = time.Duration(math.MinInt64)

func TestSchedules(t *testing.T) {
	for name, row := range map[string]struct {
		changes []func(Schedule) Schedule
		// shows is what the schedule shows so long after noon, both since noon.
		reading map[time.Duration]time.Duration
		// when is the first instant at which it shows that, from ten seconds on.
		when map[time.Duration]time.Duration
	}{
		"untouched": {
			nil,
			map[time.Duration]time.Duration{-time.Hour: -time.Hour, 0: 0, time.Minute: time.Minute},
			map[time.Duration]time.Duration{5 * time.Second: 10 * time.Second, time.Minute: time.Minute},
		},
		"faster after a minute": {
			[]func(Schedule) Schedule{speedAt(time.Minute, 60)},
			map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, time.Minute: time.Minute, 61 * time.Second: 2 * time.Minute},
			map[time.Duration]time.Duration{time.Minute: time.Minute, 6 * time.Minute: 65 * time.Second, 59 * time.Second: 59 * time.Second},
		},
		"slower": {
			[]func(Schedule) Schedule{speedAt(time.Minute, 0.5)},
			map[time.Duration]time.Duration{2 * time.Minute: 90 * time.Second},
			map[time.Duration]time.Duration{90 * time.Second: 2 * time.Minute},
		},
		"paused": {
			[]func(Schedule) Schedule{pauseAt(time.Minute)},
			map[time.Duration]time.Duration{time.Hour: time.Minute},
			map[time.Duration]time.Duration{time.Minute: time.Minute, 61 * time.Second: never},
		},
		"paused and resumed": {
			[]func(Schedule) Schedule{pauseAt(time.Minute), resumeAt(time.Hour)},
			map[time.Duration]time.Duration{30 * time.Minute: time.Minute, time.Hour + time.Second: 61 * time.Second},
			map[time.Duration]time.Duration{61 * time.Second: time.Hour + time.Second},
		},
		"another speed while paused": {
			[]func(Schedule) Schedule{pauseAt(time.Minute), speedAt(2*time.Minute, 10), resumeAt(3 * time.Minute)},
			map[time.Duration]time.Duration{150 * time.Second: time.Minute, 181 * time.Second: 70 * time.Second},
			map[time.Duration]time.Duration{70 * time.Second: 181 * time.Second},
		},
		"stepped": {
			[]func(Schedule) Schedule{stepAt(time.Minute, 5*time.Minute)},
			map[time.Duration]time.Duration{time.Minute - 1: time.Minute - 1, time.Minute: 6 * time.Minute, 2 * time.Minute: 7 * time.Minute},
			map[time.Duration]time.Duration{3 * time.Minute: time.Minute, 6 * time.Minute: time.Minute, 7 * time.Minute: 2 * time.Minute},
		},
		"stepped while paused": {
			[]func(Schedule) Schedule{pauseAt(time.Minute), stepAt(2*time.Minute, time.Hour)},
			map[time.Duration]time.Duration{time.Hour: time.Hour + time.Minute},
			map[time.Duration]time.Duration{time.Hour: 2 * time.Minute, 2 * time.Hour: never},
		},
		"two changes at once": {
			[]func(Schedule) Schedule{speedAt(time.Minute, 60), stepAt(time.Minute, time.Hour)},
			map[time.Duration]time.Duration{61 * time.Second: time.Hour + 2*time.Minute},
			nil,
		},
		"a change that comes before the last is made after it": {
			[]func(Schedule) Schedule{pauseAt(time.Minute), resumeAt(30 * time.Second)},
			map[time.Duration]time.Duration{2 * time.Minute: 2 * time.Minute},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := testSchedule(t, row.changes...)
			for wall, want := range row.reading {
				if got := f.TimeAt(afterNoon(wall)).Sub(noon); got != want {
					t.Errorf("%v after noon it shows %v, want %v", wall, got, want)
				}
			}
			for reading, want := range row.when {
				wall, ok := f.WallTime(afterNoon(reading), afterNoon(10*time.Second))
				if got := wall.Sub(noon); ok != (want != never) || ok && got != want {
					t.Errorf("it shows %v after %v, %t; want %v", reading, got, ok, want)
				}
			}
		})
	}
}

// TestWallTimeIsNotEarly uses an awkward speed: WallTime is never early.
func TestWallTimeIsNotEarly(t *testing.T) {
	f := testSchedule(t, speedAt(time.Second, 7.3), speedAt(time.Hour, 0.013))
	for d := time.Second; d < 10*time.Hour; d = d*17/16 + 1 {
		wall, ok := f.WallTime(afterNoon(d), noon)
		if !ok || f.TimeAt(wall).Before(afterNoon(d)) {
			t.Fatalf("When(%v) = %v, %t, and then it shows %v", d, wall.Sub(noon), ok, f.TimeAt(wall).Sub(noon))
		}
		if early := wall.Add(-time.Microsecond); early.After(noon) && !f.TimeAt(early).Before(afterNoon(d)) {
			t.Fatalf("When(%v) = %v, and a microsecond before it shows that already", d, wall.Sub(noon))
		}
	}
}

func TestSchedulesRefuse(t *testing.T) {
	f := testSchedule(t)
	for _, d := range []time.Duration{0, -time.Second, math.MaxInt64} {
		if _, err := f.WithStep(noon, d); err == nil {
			t.Errorf("a step of %v is taken", d)
		}
	}
	if _, err := f.WithSpeed(noon, 0); err == nil {
		t.Error("a speed of 0 is taken")
	}
	back := append(slices.Clone(f), Segment{Wall: afterNoon(time.Minute), Reading: noon, Speed: 1})
	early := append(slices.Clone(f), Segment{Wall: afterNoon(-time.Minute), Reading: noon, Speed: 1})
	fast := Schedule{{Wall: noon, Reading: noon, Speed: 1e6}}
	for name, f := range map[string]Schedule{"empty": nil, "shows less": back, "begins earlier": early, "too fast": fast} {
		if f.Check() == nil {
			t.Errorf("%s: nothing is wrong with it", name)
		}
	}
}

// TestSchedulesForget makes more changes than a schedule keeps: the present stays right.
func TestSchedulesForget(t *testing.T) {
	f := testSchedule(t)
	for i := range 3 * maxSegments {
		f = stepAt(time.Duration(i)*time.Second, time.Minute)(f)
	}
	want := time.Hour + 3*maxSegments*time.Minute
	if got := f.TimeAt(afterNoon(time.Hour)).Sub(noon); got != want || len(f) != maxSegments || f.Check() != nil {
		t.Errorf("after an hour it shows %v with %d segments, %v; want %v with %d", got, len(f), f.Check(), want, maxSegments)
	}
}

// TestLateChange learns of a change after it has taken effect.
func TestLateChange(t *testing.T) {
	fast := testSchedule(t, speedAt(0, 60))
	for name, row := range map[string]struct {
		news    Schedule
		reading map[time.Duration]time.Duration
	}{
		"slower": {
			speedAt(time.Minute, 1)(fast),
			map[time.Duration]time.Duration{time.Minute: time.Hour, 61 * time.Second: time.Hour + time.Minute, 2 * time.Minute: time.Hour + time.Minute, 122 * time.Second: time.Hour + 62*time.Second},
		},
		"paused and then resumed": {
			resumeAt(10 * time.Minute)(pauseAt(time.Minute)(fast)),
			map[time.Duration]time.Duration{5 * time.Minute: time.Hour + time.Minute, 10 * time.Minute: time.Hour + time.Minute, 602 * time.Second: time.Hour + 2*time.Minute},
		},
		"paused": {
			pauseAt(time.Minute)(fast),
			map[time.Duration]time.Duration{time.Hour: time.Hour + time.Minute},
		},
		"stepped": {
			stepAt(time.Minute, time.Hour)(fast),
			map[time.Duration]time.Duration{61 * time.Second: 2*time.Hour + time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.news.KeepMonotonic(fast, afterNoon(61*time.Second))
			if err := got.Check(); err != nil {
				t.Error(err)
			}
			for wall, want := range row.reading {
				if shown := got.TimeAt(afterNoon(wall)).Sub(noon); shown != want {
					t.Errorf("%v after noon it shows %v, want %v", wall, shown, want)
				}
			}
		})
	}
}

func TestSchedulesAsJSON(t *testing.T) {
	f := testSchedule(t, speedAt(time.Minute, 60), pauseAt(time.Hour))
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var again Schedule
	if err := json.Unmarshal(data, &again); err != nil || !slices.EqualFunc(f, again, Segment.equal) {
		t.Errorf("%s: %v, read again as %v, was %v", data, err, again, f)
	}
}
