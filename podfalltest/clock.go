package podfalltest

import (
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Now returns the cluster's time. It equals wall time unless the clock has a [Speed] or was
// changed.
func (c *Cluster) Now() time.Time { return c.clock.Now() }

// Sleep waits for d of cluster time.
func (c *Cluster) Sleep(d time.Duration) {
	c.t.Helper()
	if err := c.clock.Sleep(c.t.Context(), d); err != nil {
		c.t.Fatalf("podfalltest: %v", err)
	}
}

// SetSpeed changes the speed of the cluster's clock: 0.001 to 10,000 cluster seconds per wall
// second. It applies to waits under way too. If 10 s of a 30 s grace have passed, the other 20 s
// take 2 s of wall time at speed 10.
func (c *Cluster) SetSpeed(rate float64) {
	c.t.Helper()
	c.changeClock("SetSpeed", func(schedule clock.Schedule, now time.Time) (clock.Schedule, error) {
		return schedule.WithSpeed(now, rate)
	})
}

// Pause stops the cluster's clock until Resume: no grace ends, no lease expires, and no periodic
// work runs. Work triggered by events goes on.
func (c *Cluster) Pause() {
	c.t.Helper()
	c.changeClock("Pause", func(schedule clock.Schedule, now time.Time) (clock.Schedule, error) {
		return schedule.WithPause(now), nil
	})
}

// Resume continues a paused clock at its previous speed.
func (c *Cluster) Resume() {
	c.t.Helper()
	c.changeClock("Resume", func(schedule clock.Schedule, now time.Time) (clock.Schedule, error) {
		return schedule.WithResume(now), nil
	})
}

// Step advances the cluster's clock by d at once, paused or not. Everything due by then becomes due
// at once, in order. Nothing can run in between, so the nodes' leases age by d too, and nodes may
// be NotReady until their kubelets renew them. To let the cluster work through the time, sleep in a
// bubble or use SetSpeed.
func (c *Cluster) Step(d time.Duration) {
	c.t.Helper()
	c.changeClock("Step", func(schedule clock.Schedule, now time.Time) (clock.Schedule, error) { return schedule.WithStep(now, d) })
}

func (c *Cluster) changeClock(how string, change func(clock.Schedule, time.Time) (clock.Schedule, error)) {
	c.t.Helper()
	if err := c.driver.Change(change); err != nil {
		c.t.Fatalf("podfalltest: %s: %v", how, err)
	}
	c.parts.RecordClock(c.driver.Schedule())
}
