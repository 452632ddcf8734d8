package clock

import (
	"slices"
	"time"
)

// Skew is how wrong a clock reads from the cluster time Since on: it is Offset ahead of the true
// cluster time and runs Rate times as fast.
type Error struct {
	Since time.Time
	// Offset is added to the reading; a negative offset is behind.
	Ahead time.Duration
	// Rate is positive; 0 means 1.
	Rate float64
}

// apply returns what a clock with this skew reads at the true cluster time steady.
func (e Error) of(shows time.Time) time.Time {
	if e.Rate != 0 && e.Rate != 1 {
		shows = e.Since.Add(time.Duration(float64(shows.Sub(e.Since)) * e.Rate))
	}
	return shows.Add(e.Ahead)
}

// skews are the skews of a clock over time, each in force from its Since until the next.
type errs []Error

// apply returns what the clock reads at the true cluster time steady.
func (w errs) of(shows time.Time) time.Time {
	for _, e := range slices.Backward(w) {
		if !shows.Before(e.Since) {
			return e.of(shows)
		}
	}
	return shows
}

// add returns the skews followed by e, unless e changes nothing.
func (w errs) and(e Error) errs {
	if len(w) == 0 && e == (Error{Since: e.Since}) || len(w) > 0 && w[len(w)-1] == e {
		return w
	}
	wrong := append(slices.Clone(w), e)
	return wrong[max(0, len(wrong)-mostSegments):]
}

// SetSkew makes the clocks read wrong from e.Since on, until the next skew. As if a machine's clock
// were set, the reading jumps ahead or back. Timers, timeouts and Steady are not affected.
func (m *Movement) Mislead(e Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong.Store(new(m.errors().and(e)))
}

// ClearSkew ends the skew now.
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

// ApplySkew returns what the clock read, including skew, when [Clock.Steady] returned steady. The
// zero time stays zero.
func (c Clock) Read(steady time.Time) time.Time {
	if c.movement == nil || steady.IsZero() {
		return steady
	}
	return c.movement.errors().of(steady)
}
