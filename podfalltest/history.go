package podfalltest

import (
	"github.com/podfall/podfall/analysis/windows"
	"github.com/podfall/podfall/internal/history"
)

// SplitBrain is a time interval in which two incarnations of one pod were alive.
type SplitBrain = windows.Window

// SplitBrains returns all split-brain windows so far, open ones last. They come from the runtimes'
// histories, whatever the API says.
func (c *Cluster) SplitBrains() []SplitBrain {
	return windows.Find(c.HistoryEvents(), c.clock.Now())
}

// HistoryEvents returns everything that all parts have recorded so far, in one order.
func (c *Cluster) HistoryEvents() []history.Event {
	c.t.Helper()
	log, err := history.Read(c.parts.History())
	if err != nil {
		c.t.Fatalf("podfalltest: %v", err)
	}
	return log.Events
}
