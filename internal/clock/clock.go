// Package clock is a cluster's time. A cluster may run faster than the wall: every
// process of it is given the same origin and rate, so that an eviction of five minutes
// takes five seconds at rate 60 and timestamps still agree.
//
// The zero Clock is the wall clock. Inside a testing/synctest bubble the wall is the
// bubble's, so tests need no other clock. This is the only package that asks the
// system for the time.
package clock

import (
	"context"
	"fmt"
	"time"
)

// Clock tells cluster time. It is a small value: copy it.
type Clock struct {
	origin time.Time
	rate   float64
}

// At is a clock that showed origin when the wall showed origin, and has run rate times
// as fast since. Rate must be between 0.001 and 10,000.
func At(origin time.Time, rate float64) (Clock, error) {
	if !(rate >= 0.001 && rate <= 10_000) {
		return Clock{}, fmt.Errorf("speed %v: want a number from 0.001 to 10000", rate)
	}
	if rate == 1 {
		return Clock{}, nil
	}
	return Clock{origin: origin, rate: rate}, nil
}

// Rate is how many cluster seconds pass in a second of the wall.
func (c Clock) Rate() float64 {
	if c.rate == 0 {
		return 1
	}
	return c.rate
}

// Now is the cluster's time. On the wall clock it carries Go's monotonic reading, so
// that differences are immune to steps of the wall.
func (c Clock) Now() time.Time {
	return c.Of(time.Now())
}

// Of is what the clock shows when the wall shows wall. The zero time stays zero.
func (c Clock) Of(wall time.Time) time.Time {
	if c.rate == 0 || wall.IsZero() {
		return wall
	}
	elapsed := wall.Sub(c.origin)
	return c.origin.Add(time.Duration(float64(elapsed) * c.rate))
}

// Since is the cluster time that has passed since t.
func (c Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until is the cluster time that has still to pass before t.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// Wall is how long d of cluster time takes on the wall.
func (c Clock) Wall(d time.Duration) time.Duration {
	if c.rate == 0 || d <= 0 {
		return d
	}
	return max(time.Duration(float64(d)/c.rate), 1)
}

// WallWithin is how long an interval of d takes on the wall when it must not be longer
// there than d itself, nor shorter than least: a slow clock makes nobody wait for ever,
// and a fast one makes no machine faster.
func (c Clock) WallWithin(least, d time.Duration) time.Duration {
	return max(min(c.Wall(d), d), least)
}

// Timer fires once after d of cluster time. Stop it when it is not needed.
func (c Clock) Timer(d time.Duration) *time.Timer { return time.NewTimer(c.Wall(d)) }

// Ticker fires every d of cluster time; d must be positive. Stop it when it is not
// needed.
func (c Clock) Ticker(d time.Duration) *time.Ticker { return time.NewTicker(c.Wall(d)) }

// Sleep waits for d of cluster time, or until ctx ends, and then returns its error.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := c.Timer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Timeout is a context that ends after d of cluster time.
func (c Clock) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.Wall(d))
}
