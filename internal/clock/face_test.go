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

func after(d time.Duration) time.Time { return noon.Add(d) }

// testSchedule returns a schedule that starts at noon at speed 1, with changes.
func face(t *testing.T, changes ...func(Face) Face) Face {
	t.Helper()
	f, err := NewFace(noon, 1)
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

func paced(at time.Duration, speed float64) func(Face) Face {
	return func(f Face) Face {
		f, err := f.Paced(after(at), speed)
		if err != nil {
			panic(err)
		}
		return f
	}
}

func paused(at time.Duration) func(Face) Face {
	return func(f Face) Face { return f.PausedFrom(after(at)) }
}

func resumed(at time.Duration) func(Face) Face {
	return func(f Face) Face { return f.ResumedFrom(after(at)) }
}

func stepped(at, d time.Duration) func(Face) Face {
	return func(f Face) Face {
		f, err := f.Stepped(after(at), d)
		if err != nil {
			panic(err)
		}
		return f
	}
}

// never is of a time that a face does not show.
const never = time.Duration(math.MinInt64)

func TestFaces(t *testing.T) {
	for name, row := range map[string]struct {
		changes []func(Face) Face
		// shows is what the face shows so long after noon, both since noon.
		shows map[time.Duration]time.Duration
		// when is the first instant at which it shows that, from ten seconds on.
		when map[time.Duration]time.Duration
	}{
		"untouched": {
			nil,
			map[time.Duration]time.Duration{-time.Hour: -time.Hour, 0: 0, time.Minute: time.Minute},
			map[time.Duration]time.Duration{5 * time.Second: 10 * time.Second, time.Minute: time.Minute},
		},
		"faster after a minute": {
			[]func(Face) Face{paced(time.Minute, 60)},
			map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, time.Minute: time.Minute, 61 * time.Second: 2 * time.Minute},
			map[time.Duration]time.Duration{time.Minute: time.Minute, 6 * time.Minute: 65 * time.Second, 59 * time.Second: 59 * time.Second},
		},
		"slower": {
			[]func(Face) Face{paced(time.Minute, 0.5)},
			map[time.Duration]time.Duration{2 * time.Minute: 90 * time.Second},
			map[time.Duration]time.Duration{90 * time.Second: 2 * time.Minute},
		},
		"paused": {
			[]func(Face) Face{paused(time.Minute)},
			map[time.Duration]time.Duration{time.Hour: time.Minute},
			map[time.Duration]time.Duration{time.Minute: time.Minute, 61 * time.Second: never},
		},
		"paused and resumed": {
			[]func(Face) Face{paused(time.Minute), resumed(time.Hour)},
			map[time.Duration]time.Duration{30 * time.Minute: time.Minute, time.Hour + time.Second: 61 * time.Second},
			map[time.Duration]time.Duration{61 * time.Second: time.Hour + time.Second},
		},
		"another speed while paused": {
			[]func(Face) Face{paused(time.Minute), paced(2*time.Minute, 10), resumed(3 * time.Minute)},
			map[time.Duration]time.Duration{150 * time.Second: time.Minute, 181 * time.Second: 70 * time.Second},
			map[time.Duration]time.Duration{70 * time.Second: 181 * time.Second},
		},
		"stepped": {
			[]func(Face) Face{stepped(time.Minute, 5*time.Minute)},
			map[time.Duration]time.Duration{time.Minute - 1: time.Minute - 1, time.Minute: 6 * time.Minute, 2 * time.Minute: 7 * time.Minute},
			map[time.Duration]time.Duration{3 * time.Minute: time.Minute, 6 * time.Minute: time.Minute, 7 * time.Minute: 2 * time.Minute},
		},
		"stepped while paused": {
			[]func(Face) Face{paused(time.Minute), stepped(2*time.Minute, time.Hour)},
			map[time.Duration]time.Duration{time.Hour: time.Hour + time.Minute},
			map[time.Duration]time.Duration{time.Hour: 2 * time.Minute, 2 * time.Hour: never},
		},
		"two changes at once": {
			[]func(Face) Face{paced(time.Minute, 60), stepped(time.Minute, time.Hour)},
			map[time.Duration]time.Duration{61 * time.Second: time.Hour + 2*time.Minute},
			nil,
		},
		"a change that comes before the last is made after it": {
			[]func(Face) Face{paused(time.Minute), resumed(30 * time.Second)},
			map[time.Duration]time.Duration{2 * time.Minute: 2 * time.Minute},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := face(t, row.changes...)
			for wall, want := range row.shows {
				if got := f.Of(after(wall)).Sub(noon); got != want {
					t.Errorf("%v after noon it shows %v, want %v", wall, got, want)
				}
			}
			for shows, want := range row.when {
				wall, ok := f.When(after(shows), after(10*time.Second))
				if got := wall.Sub(noon); ok != (want != never) || ok && got != want {
					t.Errorf("it shows %v after %v, %t; want %v", shows, got, ok, want)
				}
			}
		})
	}
}

// TestWhenIsTheFirst asks a face with an awkward speed: When is never early.
func TestWhenIsTheFirst(t *testing.T) {
	f := face(t, paced(time.Second, 7.3), paced(time.Hour, 0.013))
	for d := time.Second; d < 10*time.Hour; d = d*17/16 + 1 {
		wall, ok := f.When(after(d), noon)
		if !ok || f.Of(wall).Before(after(d)) {
			t.Fatalf("When(%v) = %v, %t, and then it shows %v", d, wall.Sub(noon), ok, f.Of(wall).Sub(noon))
		}
		if early := wall.Add(-time.Microsecond); early.After(noon) && !f.Of(early).Before(after(d)) {
			t.Fatalf("When(%v) = %v, and a microsecond before it shows that already", d, wall.Sub(noon))
		}
	}
}

func TestFacesRefuse(t *testing.T) {
	f := face(t)
	for _, d := range []time.Duration{0, -time.Second, math.MaxInt64} {
		if _, err := f.Stepped(noon, d); err == nil {
			t.Errorf("a step of %v is taken", d)
		}
	}
	if _, err := f.Paced(noon, 0); err == nil {
		t.Error("a speed of 0 is taken")
	}
	back := append(slices.Clone(f), Segment{Wall: after(time.Minute), Shows: noon, Speed: 1})
	early := append(slices.Clone(f), Segment{Wall: after(-time.Minute), Shows: noon, Speed: 1})
	fast := Face{{Wall: noon, Shows: noon, Speed: 1e6}}
	for name, f := range map[string]Face{"empty": nil, "shows less": back, "begins earlier": early, "too fast": fast} {
		if f.Check() == nil {
			t.Errorf("%s: nothing is wrong with it", name)
		}
	}
}

// TestFacesForget makes more changes than a face remembers: the present stays right.
func TestFacesForget(t *testing.T) {
	f := face(t)
	for i := range 3 * mostSegments {
		f = stepped(time.Duration(i)*time.Second, time.Minute)(f)
	}
	want := time.Hour + 3*mostSegments*time.Minute
	if got := f.Of(after(time.Hour)).Sub(noon); got != want || len(f) != mostSegments || f.Check() != nil {
		t.Errorf("after an hour it shows %v with %d segments, %v; want %v with %d", got, len(f), f.Check(), want, mostSegments)
	}
}

// TestLateNews hears of a change when it has gone on for a while.
func TestLateNews(t *testing.T) {
	fast := face(t, paced(0, 60))
	for name, row := range map[string]struct {
		news  Face
		shows map[time.Duration]time.Duration
	}{
		"slower": {
			paced(time.Minute, 1)(fast),
			map[time.Duration]time.Duration{time.Minute: time.Hour, 61 * time.Second: time.Hour + time.Minute, 2 * time.Minute: time.Hour + time.Minute, 122 * time.Second: time.Hour + 62*time.Second},
		},
		"paused and then resumed": {
			resumed(10 * time.Minute)(paused(time.Minute)(fast)),
			map[time.Duration]time.Duration{5 * time.Minute: time.Hour + time.Minute, 10 * time.Minute: time.Hour + time.Minute, 602 * time.Second: time.Hour + 2*time.Minute},
		},
		"paused": {
			paused(time.Minute)(fast),
			map[time.Duration]time.Duration{time.Hour: time.Hour + time.Minute},
		},
		"stepped": {
			stepped(time.Minute, time.Hour)(fast),
			map[time.Duration]time.Duration{61 * time.Second: 2*time.Hour + time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.news.After(fast, after(61*time.Second))
			if err := got.Check(); err != nil {
				t.Error(err)
			}
			for wall, want := range row.shows {
				if shown := got.Of(after(wall)).Sub(noon); shown != want {
					t.Errorf("%v after noon it shows %v, want %v", wall, shown, want)
				}
			}
		})
	}
}

func TestFacesAsJSON(t *testing.T) {
	f := face(t, paced(time.Minute, 60), paused(time.Hour))
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var again Face
	if err := json.Unmarshal(data, &again); err != nil || !slices.EqualFunc(f, again, Segment.same) {
		t.Errorf("%s: %v, read again as %v, was %v", data, err, again, f)
	}
}
