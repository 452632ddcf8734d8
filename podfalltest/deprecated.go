package podfalltest

import "github.com/podfall/podfall/internal/history"

// Written is the old name of HistoryEvents.
//
// Deprecated: use [Cluster.HistoryEvents].
func (c *Cluster) Written() []history.Event { return c.HistoryEvents() }
