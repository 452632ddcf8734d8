package podfalltest

import (
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Now is the cluster's time: the wall's, unless it has a [Speed] or has been moved.
func (c *Cluster) Now() time.Time { return c.clock.Now() }

// Sleep waits for d of the cluster's time.
func (c *Cluster) Sleep(d time.Duration) {
	c.t.Helper()
	if err := c.clock.Sleep(c.t.Context(), d); err != nil {
		c.t.Fatalf("podfalltest: %v", err)
	}
}

// SetSpeed makes the cluster's clock run at another speed from now on: 0.001 to 10,000
// seconds of the cluster in one of the wall. What is under way goes on at that speed: of a
// grace of 30 s that has run for 10 s, the other 20 s take 2 s of the wall at speed 10.
func (c *Cluster) SetSpeed(rate float64) {
	c.t.Helper()
	c.move("SetSpeed", func(face clock.Schedule, now time.Time) (clock.Schedule, error) { return face.WithSpeed(now, rate) })
}

// Pause makes the cluster's clock stand still until Resume: no grace ends, no lease expires,
// nothing that is repeated now and then is. What happens because something else has
// happened goes on happening.
func (c *Cluster) Pause() {
	c.t.Helper()
	c.move("Pause", func(face clock.Schedule, now time.Time) (clock.Schedule, error) { return face.WithPause(now), nil })
}

// Resume lets a cluster's clock go on that was paused, at the speed that it had.
func (c *Cluster) Resume() {
	c.t.Helper()
	c.move("Resume", func(face clock.Schedule, now time.Time) (clock.Schedule, error) { return face.WithResume(now), nil })
}

// Step makes the cluster's clock jump ahead by d, paused or not. All that is due by then is
// due at once, in order, and nobody has done in between what takes time: the nodes' leases
// are older by d too, so that nodes may be NotReady until their kubelets have renewed them.
// To live through the time, sleep in a bubble, or use SetSpeed.
func (c *Cluster) Step(d time.Duration) {
	c.t.Helper()
	c.move("Step", func(face clock.Schedule, now time.Time) (clock.Schedule, error) { return face.WithStep(now, d) })
}

func (c *Cluster) move(how string, change func(clock.Schedule, time.Time) (clock.Schedule, error)) {
	c.t.Helper()
	if err := c.movement.Change(change); err != nil {
		c.t.Fatalf("podfalltest: %s: %v", how, err)
	}
	c.parts.Moved(c.movement.Schedule())
}
