package clock

import (
	"slices"
	"time"
)

// Skew is how wrong a clock reads from the cluster time Since on: it is Offset ahead of the true
// cluster time and runs Rate times as fast.
type Skew struct {
	Since time.Time
	// Offset is added to the reading; a negative offset is behind.
	Offset time.Duration
	// Rate is positive; 0 means 1.
	Rate float64
}

// apply returns what a clock with this skew reads at the true cluster time steady.
func (e Skew) apply(reading time.Time) time.Time {
	if e.Rate != 0 && e.Rate != 1 {
		reading = e.Since.Add(time.Duration(float64(reading.Sub(e.Since)) * e.Rate))
	}
	return reading.Add(e.Offset)
}

// skews are the skews of a clock over time, each in force from its Since until the next.
type skews []Skew

// apply returns what the clock reads at the true cluster time steady.
func (w skews) apply(reading time.Time) time.Time {
	for _, e := range slices.Backward(w) {
		if !reading.Before(e.Since) {
			return e.apply(reading)
		}
	}
	return reading
}

// add returns the skews followed by e, unless e changes nothing.
func (w skews) add(e Skew) skews {
	if len(w) == 0 && e == (Skew{Since: e.Since}) || len(w) > 0 && w[len(w)-1] == e {
		return w
	}
	all := append(slices.Clone(w), e)
	return all[max(0, len(all)-maxSegments):]
}

// SetSkew makes the clocks read wrong from e.Since on, until the next skew. As if a machine's clock
// were set, the reading jumps ahead or back. Timers, timeouts and Steady are not affected.
func (m *Driver) SetSkew(e Skew) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skew.Store(new(m.loadSkews().add(e)))
}

// ClearSkew ends the skew now.
func (m *Driver) ClearSkew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.loadSkews()
	if len(all) == 0 || all[len(all)-1] == (Skew{Since: all[len(all)-1].Since}) {
		return
	}
	m.skew.Store(new(all.add(Skew{Since: m.Schedule().TimeAt(time.Now())})))
}

func (m *Driver) loadSkews() skews {
	if all := m.skew.Load(); all != nil {
		return *all
	}
	return nil
}

// ApplySkew returns what the clock read, including skew, when [Clock.Steady] returned steady. The
// zero time stays zero.
func (c Clock) ApplySkew(steady time.Time) time.Time {
	if c.driver == nil || steady.IsZero() {
		return steady
	}
	return c.driver.loadSkews().apply(steady)
}
