package podfalltest

import (
	"github.com/podfall/podfall/analysis/windows"
	"github.com/podfall/podfall/internal/history"
)

// SplitBrain is a time during which two incarnations of one pod were alive.
type SplitBrain = windows.Window

// SplitBrains are the windows that there have been so far, open ones last, by what the
// runtimes have written down: true whatever the API says.
func (c *Cluster) SplitBrains() []SplitBrain {
	return windows.Find(c.Written(), c.clock.Now())
}

// Written is what all parts have written down so far, in one order.
func (c *Cluster) Written() []history.Event {
	c.t.Helper()
	log, err := history.Read(c.parts.History())
	if err != nil {
		c.t.Fatalf("podfalltest: %v", err)
	}
	return log.Events
}
