// Package clock is a cluster's time. A cluster may run faster or slower than the wall, its
// time may be paused and stepped ahead, and all that while it runs: every process of it is
// given the same [Face], so that an eviction of five minutes takes five seconds at speed 60
// and timestamps still agree.
//
//	face.go      PURE: what a clock shows, and when, and how changes make another face
//	wrong.go     how a clock reads wrong
//	clock.go     Clock, which everybody has and reads
//	movement.go  Movement, which drives clocks and sets them
//	timer.go     Timer and Ticker
//	timeout.go   contexts that end at a time
//
// The zero Clock is the wall clock. Inside a testing/synctest bubble the wall is the
// bubble's, so tests need no other clock. This is the only package that asks the
// system for the time.
//
// # Changes
//
// Whatever waits on a clock that is moved is aimed anew: a timer that has run for half of
// its time runs for half the other half's length when the speed doubles, none rings while
// the clock is paused, and a step rings all that it passes, in the order in which they are
// due. No change makes a clock go back.
//
// # A clock that is wrong
//
// One process' clock may be set wrong: [Movement.Mislead]. That concerns what it reads, and
// so what it writes into objects and how old it takes them to be, and not how long it waits,
// as the wall clock of a machine has no say in its monotonic one. What a process compares with
// an instant of its own, to see how much time has passed, it takes from [Clock.Steady].
//
// # The wall's own jumps
//
// A process takes the wall's time once for each segment of its face and goes by the
// machine's monotonic clock from there: setting the machine's clock moves no cluster.
package clock

import (
	"context"
	"time"
)

// Clock tells cluster time. It is a small value: copy it.
type Clock struct{ movement *Movement }

// Now is the cluster's time, unless the clock has been set wrong: what goes into objects, and
// what is compared with what is in them. On the wall clock it carries Go's monotonic reading,
// so that differences are immune to steps of the wall.
func (c Clock) Now() time.Time { return c.Read(c.Steady()) }

// Steady is the cluster's time, also when the clock has been set wrong: for instants between
// which a process measures, and waits.
func (c Clock) Steady() time.Time { return c.Of(time.Now()) }

// Of is Steady when the wall shows wall. The zero time stays zero.
func (c Clock) Of(wall time.Time) time.Time {
	if c.movement == nil || wall.IsZero() {
		return wall
	}
	return c.movement.Face().Of(wall)
}

// Since is the cluster time that has passed since t.
func (c Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until is the cluster time that has still to pass before t.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// Segment is what the clock does now. The wall clock shows the wall's time at speed 1.
func (c Clock) Segment() Segment {
	now := time.Now()
	if c.movement == nil {
		return Segment{Wall: now, Shows: now, Speed: 1}
	}
	return c.movement.Face().At(now)
}

// Wall is how long d of cluster time takes on the wall at the clock's speed, were it not
// paused and left alone.
func (c Clock) Wall(d time.Duration) time.Duration {
	if c.movement == nil || d <= 0 {
		return d
	}
	return max(time.Duration(float64(d)/c.speed()), 1)
}

// Ahead is how much cluster time passes in d of the wall at the clock's speed, were it not
// paused and left alone.
func (c Clock) Ahead(d time.Duration) time.Duration {
	if c.movement == nil {
		return d
	}
	return time.Duration(float64(d) * c.speed())
}

// speed is Segment().Speed of a clock that is not the wall.
func (c Clock) speed() float64 {
	if f := c.movement.Face(); len(f) == 1 {
		return f[0].Speed
	}
	return c.Segment().Speed
}

// WallWithin is how long an interval of d takes on the wall when it must not be longer
// there than d itself, nor shorter than least: a slow clock makes nobody wait for ever,
// and a fast one makes no machine faster.
func (c Clock) WallWithin(least, d time.Duration) time.Duration {
	return max(min(c.Wall(d), d), least)
}

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
