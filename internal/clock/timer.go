package clock

import "time"

// Timer is a time.Timer on a [Clock]. Like time.Timer, it delivers no stale value after Stop or
// Reset. It is a small value: copies are the same timer.
type Timer struct {
	// C receives the cluster's time, [Clock.Steady], once, when the timer is due.
	C     <-chan time.Time
	clock Clock
	wall  *time.Timer // nil except on the wall clock
	alarm *alarm      // nil on the wall clock
}

// Timer returns a timer that fires once after d of cluster time. Stop it if it is no longer needed.
func (c Clock) Timer(d time.Duration) Timer {
	if c.driver == nil {
		timer := time.NewTimer(d)
		return Timer{C: timer.C, clock: c, wall: timer}
	}
	a := c.driver.addAfter(d, alarm{c: make(chan time.Time, 1)})
	return Timer{C: a.c, clock: c, alarm: a}
}

// Stop reports whether it prevented the timer from firing.
func (t Timer) Stop() bool {
	if t.wall != nil {
		return t.wall.Stop()
	}
	return t.clock.driver.remove(t.alarm)
}

// Reset makes the timer fire once, d of cluster time from now. It reports whether the timer was
// still pending.
func (t Timer) Reset(d time.Duration) bool {
	if t.wall != nil {
		return t.wall.Reset(d)
	}
	return t.clock.driver.reset(t.alarm, d)
}

// Ticker is a time.Ticker on a [Clock]. It is a small value: copies are the same ticker.
type Ticker struct {
	// C receives the cluster's time, [Clock.Steady], at each tick. Ticks are dropped while the
	// reader is late.
	C      <-chan time.Time
	driver *Driver
	wall   *time.Ticker // nil except on the wall clock
	alarm  *alarm       // nil on the wall clock
}

// Ticker returns a ticker that fires every d of cluster time. The interval d must be positive. Stop
// the ticker if it is no longer needed.
func (c Clock) Ticker(d time.Duration) Ticker {
	if c.driver == nil {
		ticker := time.NewTicker(d)
		return Ticker{C: ticker.C, wall: ticker}
	}
	if d <= 0 {
		panic("clock: an interval that is not positive for a Ticker")
	}
	a := c.driver.addAfter(d, alarm{every: d, c: make(chan time.Time, 1)})
	return Ticker{C: a.c, driver: c.driver, alarm: a}
}

// Stop ends the ticks.
func (t Ticker) Stop() {
	if t.wall != nil {
		t.wall.Stop()
		return
	}
	t.driver.remove(t.alarm)
}

// addAfter adds an alarm that is due d of cluster time from now.
func (m *Driver) addAfter(d time.Duration, a alarm) *alarm {
	a.due = m.Clock().Steady().Add(d)
	m.add(&a)
	return &a
}
