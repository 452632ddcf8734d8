package inprocess

import (
	"slices"
	"strings"
	"sync"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/trouble"
)

// faults holds the cluster's faults, and the fault table of each running part.
type faults struct {
	mu     sync.Mutex
	list   []fault.Fault
	tables map[string]*fault.Table
}

// SetFaults replaces all faults, in running parts and in parts started later. No arguments clear
// all faults.
func (c *Cluster) SetFaults(faults ...fault.Fault) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	began := c.troubles.Now()
	c.list = slices.Clone(faults)
	c.setTables()
	c.recordTroubles(began)
}

// recordTroubles records the current faults and cuts, changed at began or later. The caller holds
// the faults' lock.
func (c *Cluster) recordTroubles(began history.MonoTime) {
	c.troubles.Update(began, func(s *trouble.State) {
		s.Members, s.Faults, s.Cuts = c.members, slices.Clone(c.list), slices.Clone(c.cuts)
	})
}

// RecordClock records a change of the cluster's clock.
func (c *Cluster) RecordClock(schedule clock.Schedule) {
	c.troubles.Update(c.troubles.Now(), func(s *trouble.State) { s.Clock = schedule })
}

// Troubles returns the log for faults that are injected by other means than this package.
func (c *Cluster) Troubles() *trouble.Log { return c.troubles }

// setTables updates the parts' fault tables, including held kinds of message. The caller holds the
// faults' lock.
func (c *Cluster) setTables() {
	for _, table := range c.tables {
		table.Set(c.allFaults())
	}
}

func (c *Cluster) allFaults() []fault.Fault {
	all := slices.Clone(c.list)
	for _, cut := range c.cuts {
		all = append(all, cut.Faults(c.members)...)
	}
	return all
}

// Faults returns the current faults.
func (c *Cluster) Faults() []fault.Fault {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	return slices.Clone(c.list)
}

// newTable returns the fault table of a new incarnation of the part. A crash fault stops the part
// like Stop, without waiting.
func (c *Cluster) newTable(part string, recorder *history.Recorder) *fault.Table {
	_, node, _ := strings.Cut(part, "/")
	table := fault.NewTable(fault.Config{
		Process: part, Node: node, Clock: c.cfg.Clock, Crash: func() { c.kill(part) }, OnTrigger: trouble.RecordTriggers(recorder),
	})
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	if c.tables == nil {
		c.tables = map[string]*fault.Table{}
	}
	c.tables[part] = table
	table.Set(c.allFaults())
	return table
}

// kill stops a part from its own goroutine.
func (c *Cluster) kill(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[name]; p.stop != nil {
		began := c.troubles.Now()
		p.stop()
		p.stop = nil
		c.troubles.Begin(began, history.TroubleDown, name)
		p.down = true
	}
}
