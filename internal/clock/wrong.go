package clock

import (
	"slices"
	"time"
)

// Error is how wrong a clock reads, from the moment on at which a right one shows Since: Ahead
// more than that, or less, and running Rate times as fast.
type Error struct {
	Since time.Time
	// Ahead is how much more it reads; less than nothing is behind.
	Ahead time.Duration
	// Rate is more than 0; 0 means 1.
	Rate float64
}

// of is what a clock that is so wrong reads when a right one shows that.
func (e Error) of(shows time.Time) time.Time {
	if e.Rate != 0 && e.Rate != 1 {
		shows = e.Since.Add(time.Duration(float64(shows.Sub(e.Since)) * e.Rate))
	}
	return shows.Add(e.Ahead)
}

// errs are how wrong a clock was, each from its Since on, until the next.
type errs []Error

// of is what the clock read when a right one showed that.
func (w errs) of(shows time.Time) time.Time {
	for _, e := range slices.Backward(w) {
		if !shows.Before(e.Since) {
			return e.of(shows)
		}
	}
	return shows
}

// and is the errors with one that follows.
func (w errs) and(e Error) errs {
	if len(w) == 0 && e == (Error{Since: e.Since}) || len(w) > 0 && w[len(w)-1] == e {
		return w
	}
	wrong := append(slices.Clone(w), e)
	return wrong[max(0, len(wrong)-mostSegments):]
}

// Mislead has the clocks read wrong from e.Since on, until they are misled otherwise. As
// where a machine's clock is set, what is read jumps, ahead or back, and whatever waits goes
// on waiting: timers, timeouts and Steady are not concerned.
func (m *Movement) Mislead(e Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong.Store(new(m.errors().and(e)))
}

// Right has the clocks read what is right, from now on.
func (m *Movement) Right() {
	m.mu.Lock()
	defer m.mu.Unlock()
	wrong := m.errors()
	if len(wrong) == 0 || wrong[len(wrong)-1] == (Error{Since: wrong[len(wrong)-1].Since}) {
		return
	}
	m.wrong.Store(new(wrong.and(Error{Since: m.Face().Of(time.Now())})))
}

func (m *Movement) errors() errs {
	if wrong := m.wrong.Load(); wrong != nil {
		return *wrong
	}
	return nil
}

// Read is what the clock read, right or wrong, when [Clock.Steady] was that. The zero time
// stays zero.
func (c Clock) Read(steady time.Time) time.Time {
	if c.movement == nil || steady.IsZero() {
		return steady
	}
	return c.movement.errors().of(steady)
}
