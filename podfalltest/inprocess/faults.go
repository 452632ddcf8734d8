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

// faults are what is broken in a cluster: one list, and a table for each part that runs.
type faults struct {
	mu     sync.Mutex
	list   []fault.Fault
	tables map[string]*fault.Table
}

// Break makes faults all that is broken in the parts, those that are started later among
// them; none mends everything.
func (c *Cluster) Break(faults ...fault.Fault) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	began := c.troubles.Began()
	c.list = slices.Clone(faults)
	c.setTables()
	c.wrote(began)
}

// wrote writes down what is wrong now, since the moment at the earliest. The caller holds
// the lock of the faults.
func (c *Cluster) wrote(began history.MonoTime) {
	c.troubles.Change(began, func(s *trouble.State) {
		s.Parties, s.Faults, s.Cuts = c.parties, slices.Clone(c.list), slices.Clone(c.cuts)
	})
}

// Moved writes down what the cluster's clock shows from now on.
func (c *Cluster) Moved(face clock.Schedule) {
	c.troubles.Change(c.troubles.Began(), func(s *trouble.State) { s.Clock = face })
}

// Troubles is where what is broken by other means than this package's is written down.
func (c *Cluster) Troubles() *trouble.Log { return c.troubles }

// setTables tells the parts what is broken, and which messages are held up. The caller
// holds the lock of the faults.
func (c *Cluster) setTables() {
	for _, table := range c.tables {
		table.Set(c.allFaults())
	}
}

func (c *Cluster) allFaults() []fault.Fault {
	all := slices.Clone(c.list)
	for _, cut := range c.cuts {
		all = append(all, cut.Faults(c.parties)...)
	}
	return all
}

// Broken are the faults.
func (c *Cluster) Broken() []fault.Fault {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	return slices.Clone(c.list)
}

// table is what is broken, as a new incarnation of the part sees it. A fault that crashes
// it ends it as Stop does, without waiting.
func (c *Cluster) table(part string, recorder *history.Recorder) *fault.Table {
	_, node, _ := strings.Cut(part, "/")
	table := fault.NewTable(fault.Config{
		Process: part, Node: node, Clock: c.cfg.Clock, Crash: func() { c.kill(part) }, OnTrigger: trouble.Hit(recorder),
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

// kill ends a part from within.
func (c *Cluster) kill(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[name]; p.stop != nil {
		began := c.troubles.Began()
		p.stop()
		p.stop = nil
		c.troubles.Begin(began, history.TroubleDown, name)
		p.down = true
	}
}
