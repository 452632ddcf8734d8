// Package clock provides a cluster's time. Cluster time may run faster or slower than wall time,
// and may be paused or stepped ahead while the cluster runs. Every process of the cluster gets the
// same [Schedule], so that timestamps agree and an eviction of five minutes takes five seconds at
// speed 60.
//
//	schedule.go  PURE: maps wall time to cluster time, and derives changed schedules
//	skew.go      makes the clock of one process wrong
//	clock.go     Clock, the read side that every component gets
//	driver.go    Driver, which holds the schedule of a process and fires its timers
//	timer.go     Timer and Ticker
//	timeout.go   contexts that end at a cluster time
//
// The zero Clock is the wall clock. Inside a testing/synctest bubble the wall is the bubble's, so
// tests need no other clock. This is the only package that asks the system for the time.
//
// # Changes
//
// Everything that waits on a clock is rearmed when the schedule changes. If the speed doubles, the
// remaining wait halves. No timer fires while the clock is paused. A step fires all timers that it
// passes, in the order in which they are due. No change makes a clock go back.
//
// # Skew
//
// The clock of one process may be set wrong: [Driver.SetSkew]. Skew changes what the process reads,
// and so what it writes into objects and how old objects seem to it. Skew does not change how long
// the process waits, as setting a machine's wall clock does not touch its monotonic clock. To
// measure how much time has passed since an instant of its own, a process uses [Clock.Steady].
//
// # Steps of the wall clock
//
// A process reads the wall clock once for each segment of the schedule and continues on the
// machine's monotonic clock from there. Setting the machine's clock therefore moves no cluster.
package clock

import (
	"context"
	"time"
)

// Clock reads cluster time. It is a small value: copy it.
type Clock struct{ driver *Driver }

// Now returns the cluster's time, including skew. Use it for timestamps in objects, and to compare
// with them. On the wall clock the result carries Go's monotonic reading, so that differences are
// immune to steps of the wall.
func (c Clock) Now() time.Time { return c.ApplySkew(c.Steady()) }

// Steady returns the cluster's time without skew. Use it to measure and to wait.
func (c Clock) Steady() time.Time { return c.TimeAt(time.Now()) }

// TimeAt returns what Steady returns at the wall time wall. The zero time stays zero.
func (c Clock) TimeAt(wall time.Time) time.Time {
	if c.driver == nil || wall.IsZero() {
		return wall
	}
	return c.driver.Schedule().TimeAt(wall)
}

// Since returns the cluster time that has passed since t.
func (c Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until returns the cluster time that remains before t.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// Segment returns the schedule's segment in force now. On the wall clock that is wall time at speed
// 1.
func (c Clock) Segment() Segment {
	now := time.Now()
	if c.driver == nil {
		return Segment{Wall: now, Reading: now, Speed: 1}
	}
	return c.driver.Schedule().SegmentAt(now)
}

// WallDuration returns how much wall time d of cluster time takes at the clock's current speed,
// ignoring pauses and later changes.
func (c Clock) WallDuration(d time.Duration) time.Duration {
	if c.driver == nil || d <= 0 {
		return d
	}
	return max(time.Duration(float64(d)/c.currentSpeed()), 1)
}

// ClusterDuration returns how much cluster time passes in d of wall time at the clock's current
// speed, ignoring pauses and later changes.
func (c Clock) ClusterDuration(d time.Duration) time.Duration {
	if c.driver == nil {
		return d
	}
	return time.Duration(float64(d) * c.currentSpeed())
}

// currentSpeed returns Segment().Speed of a clock that is not the wall clock.
func (c Clock) currentSpeed() float64 {
	if f := c.driver.Schedule(); len(f) == 1 {
		return f[0].Speed
	}
	return c.Segment().Speed
}

// ClampWallDuration returns WallDuration(d), but at most d and at least least. A slow clock must
// not make a caller wait for ever, and a fast clock makes no machine faster.
func (c Clock) ClampWallDuration(least, d time.Duration) time.Duration {
	return max(min(c.WallDuration(d), d), least)
}

// Sleep waits for d of cluster time. If ctx ends first, it returns the context's error.
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
