package clock

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		fast := newTestClock(t, begin, 60)
		// Five minutes of the cluster are five seconds of the wall.
		if err := fast.Sleep(t.Context(), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 5*time.Second {
			t.Errorf("the wall moved %v, want 5s", got)
		}
		if got := fast.Since(begin); got != 5*time.Minute {
			t.Errorf("the cluster moved %v, want 5m", got)
		}
		if got := fast.Until(begin.Add(6 * time.Minute)); got != time.Minute {
			t.Errorf("Until = %v, want 1m", got)
		}
	})
}

func TestZeroClockIsTheWall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wall Clock
		begin := wall.Now()
		timer := wall.Timer(time.Second)
		<-timer.C
		if got := wall.Since(begin); got != time.Second || wall.Segment().Speed != 1 {
			t.Errorf("moved %v at speed %v, want 1s at 1", got, wall.Segment().Speed)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := Clock{}.Timeout(t.Context(), time.Second)
		defer cancel()
		if err := (Clock{}).Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep = %v, want the context's error", err)
		}
		if err := (Clock{}).Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep(0) in an ended context = %v", err)
		}
	})
}

// newTestClock returns a clock that read origin when the wall did, and runs at a speed.
func newTestClock(t testing.TB, origin time.Time, speed float64) Clock {
	t.Helper()
	schedule, err := NewSchedule(origin, speed)
	if err != nil {
		t.Fatal(err)
	}
	return NewDriver(schedule).Clock()
}

func TestSpeedsAreRefused(t *testing.T) {
	for _, speed := range []float64{0, -1, 0.0001, 20_000, math.NaN(), math.Inf(1)} {
		if _, err := NewSchedule(time.Time{}, speed); err == nil {
			t.Errorf("NewSchedule accepts speed %v", speed)
		}
	}
}

// TestShortWaitsStayWaits checks that no speed shortens a wait to zero: a ticker of zero would
// panic.
func TestShortWaitsStayWaits(t *testing.T) {
	fast := newTestClock(t, time.Unix(0, 0), 10_000)
	if got := fast.WallDuration(time.Nanosecond); got != 1 {
		t.Errorf("Wall(1ns) = %v, want 1ns", got)
	}
}

func TestClampWallDuration(t *testing.T) {
	for rate, want := range map[float64]time.Duration{0.5: 10 * time.Second, 1: 10 * time.Second, 2: 5 * time.Second, 60: 2 * time.Second} {
		clk := newTestClock(t, time.Unix(0, 0), rate)
		if got := clk.ClampWallDuration(2*time.Second, 10*time.Second); got != want {
			t.Errorf("at rate %v: %v, want %v", rate, got, want)
		}
	}
}
