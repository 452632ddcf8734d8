package bus

import (
	"context"
	"encoding/json"
	"time"

	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/proto"
)

// Inspect returns the link's state for inspectors.
func (l *Link) Inspect() inspect.Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := inspect.Link{Member: l.Member, Silent: l.silent}
	if l.silent != "" {
		state.Since = l.since
	}
	return state
}

// silentDirections describes the directions in which a link carries nothing; empty if it carries
// both.
func silentDirections(c partition.Condition) string {
	out, in := c.Manner(partition.FromNode) != partition.Carry, c.Manner(partition.ToNode) != partition.Carry
	switch {
	case out && in:
		return "either way"
	case out:
		return "from it"
	case in:
		return "to it"
	}
	return ""
}

// Inspect returns the state of all links.
func (s *Switchboard) Inspect() []inspect.Link {
	state := make([]inspect.Link, 0, len(s.links))
	for _, link := range s.links {
		state = append(state, link.Inspect())
	}
	return state
}

// inspector returns the handler for inspections of the bus process.
func (m target) inspector(boot proto.Boot) func(context.Context, []byte) ([]byte, error) {
	began := m.clock.Clock().Now()
	return func(context.Context, []byte) ([]byte, error) {
		self := inspect.Self{Process: string(proto.Bus), Boot: boot, Began: began, Now: m.now()}
		return json.Marshal(inspect.Bus{Self: self, Links: m.switchboard.Inspect()})
	}
}

func (m target) now() time.Time { return m.clock.Clock().Now() }
