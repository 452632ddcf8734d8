package view

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// EventGate holds changes back from copies. It is for tests: a closed kind is a stale view, a kind
// closed between two writes is an intermediate view, and [EventGate.Skip] makes a view that has
// missed changes.
type EventGate struct {
	clock clock.Clock
	wake  chan struct{}

	mu    sync.Mutex
	gates map[string]*gate
}

// NewEventGate returns an open gate.
func NewEventGate(clk clock.Clock) *EventGate {
	return &EventGate{clock: clk, wake: make(chan struct{}, 1), gates: map[string]*gate{}}
}

// Close holds back all later changes of a kind, named by its group resource.
func (v *EventGate) Close(groupResource string) { v.gateOf(groupResource).close() }

// Delay lets each change of a kind through when it is d old; a closed kind opens.
func (v *EventGate) Delay(groupResource string, d time.Duration) {
	g := v.gateOf(groupResource)
	g.mu.Lock()
	g.closed, g.delay = false, d
	g.mu.Unlock()
	v.wakeRun()
}

// Open lets through the changes that were held back, in order, and all later ones.
func (v *EventGate) Open(groupResource string) { v.Delay(groupResource, 0) }

// Skip opens a kind, and lets only the last state of each object through, as if the watch had
// broken and the copy had listed again.
func (v *EventGate) Skip(groupResource string) {
	g := v.gateOf(groupResource)
	g.mu.Lock()
	last := map[Key]int{}
	for i, one := range g.held {
		if obj, ok := one.event.Object.(kinds.Object); ok && one.list == nil {
			last[KeyOf(obj)] = i
		}
	}
	kept := g.held[:0]
	for i, one := range g.held {
		obj, ok := one.event.Object.(kinds.Object)
		if one.list != nil || (ok && last[KeyOf(obj)] == i) {
			kept = append(kept, one)
		}
	}
	g.held = kept
	g.mu.Unlock()
	v.Open(groupResource)
}

// gateOf returns the gate of a kind; nil if v is nil.
func (v *EventGate) gateOf(groupResource string) *gate {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gates[groupResource] == nil {
		v.gates[groupResource] = &gate{owner: v}
	}
	return v.gates[groupResource]
}

func (v *EventGate) wakeRun() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// run delivers what is due, until ctx ends.
func (v *EventGate) run(ctx context.Context) error {
	if v == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		wait := time.Hour
		v.mu.Lock()
		gates := make([]*gate, 0, len(v.gates))
		for _, g := range v.gates {
			gates = append(gates, g)
		}
		v.mu.Unlock()
		for _, g := range gates {
			wait = min(wait, g.deliverDue(v.clock.Steady()))
		}
		timer := v.clock.Timer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-v.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// gate holds back the changes of one kind. It is the sink before the copy.
type gate struct {
	owner *EventGate
	sink  podapi.Sink

	mu     sync.Mutex
	closed bool
	delay  time.Duration
	held   []heldChange
}

// heldChange is one change that is held back: a list, or an event.
type heldChange struct {
	event    watch.Event
	list     []kinds.Object
	revision string
	received time.Time
}

// wrap returns the sink to follow with: the gate, or sink itself if g is nil.
func (g *gate) wrap(sink podapi.Sink) podapi.Sink {
	if g == nil {
		return sink
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sink = sink
	return g
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Replace implements podapi.Sink.
func (g *gate) Replace(items []kinds.Object, revision string) {
	if items == nil {
		items = []kinds.Object{}
	}
	g.add(heldChange{list: items, revision: revision})
}

// Apply implements podapi.Sink.
func (g *gate) Apply(event watch.Event) { g.add(heldChange{event: event}) }

func (g *gate) add(one heldChange) {
	one.received = g.owner.clock.Steady()
	g.mu.Lock()
	g.held = append(g.held, one)
	g.mu.Unlock()
	g.owner.wakeRun()
}

// deliverDue delivers what is due, and returns the time until the next change is due.
func (g *gate) deliverDue(now time.Time) time.Duration {
	for {
		g.mu.Lock()
		if g.closed || len(g.held) == 0 || g.sink == nil {
			g.mu.Unlock()
			return time.Hour
		}
		next := g.held[0]
		if wait := next.received.Add(g.delay).Sub(now); wait > 0 {
			g.mu.Unlock()
			return wait
		}
		g.held = g.held[1:]
		g.mu.Unlock()
		if next.list != nil {
			g.sink.Replace(next.list, next.revision)
		} else {
			g.sink.Apply(next.event)
		}
	}
}
