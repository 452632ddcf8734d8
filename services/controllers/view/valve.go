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
type Valve struct {
	clock clock.Clock
	wake  chan struct{}

	mu    sync.Mutex
	gates map[string]*gate
}

// NewEventGate returns an open gate.
func NewValve(clk clock.Clock) *Valve {
	return &Valve{clock: clk, wake: make(chan struct{}, 1), gates: map[string]*gate{}}
}

// Close holds back all later changes of a kind, named by its group resource.
func (v *Valve) Close(groupResource string) { v.of(groupResource).shut() }

// Delay lets each change of a kind through when it is d old; a closed kind opens.
func (v *Valve) Delay(groupResource string, d time.Duration) {
	g := v.of(groupResource)
	g.mu.Lock()
	g.closed, g.delay = false, d
	g.mu.Unlock()
	v.prod()
}

// Open lets through the changes that were held back, in order, and all later ones.
func (v *Valve) Open(groupResource string) { v.Delay(groupResource, 0) }

// Skip opens a kind, and lets only the last state of each object through, as if the watch had
// broken and the copy had listed again.
func (v *Valve) Skip(groupResource string) {
	g := v.of(groupResource)
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
func (v *Valve) of(groupResource string) *gate {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gates[groupResource] == nil {
		v.gates[groupResource] = &gate{valve: v}
	}
	return v.gates[groupResource]
}

func (v *Valve) prod() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// run delivers what is due, until ctx ends.
func (v *Valve) run(ctx context.Context) error {
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
			wait = min(wait, g.pass(v.clock.Steady()))
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
	valve *Valve
	sink  podapi.Sink

	mu     sync.Mutex
	closed bool
	delay  time.Duration
	held   []held
}

// heldChange is one change that is held back: a list, or an event.
type held struct {
	event    watch.Event
	list     []kinds.Object
	revision string
	came     time.Time
}

// wrap returns the sink to follow with: the gate, or sink itself if g is nil.
func (g *gate) before(sink podapi.Sink) podapi.Sink {
	if g == nil {
		return sink
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sink = sink
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Replace implements podapi.Sink.
func (g *gate) Replace(items []kinds.Object, revision string) {
	if items == nil {
		items = []kinds.Object{}
	}
	g.hold(held{list: items, revision: revision})
}

// Apply implements podapi.Sink.
func (g *gate) Apply(event watch.Event) { g.hold(held{event: event}) }

func (g *gate) hold(one held) {
	one.came = g.valve.clock.Steady()
	g.mu.Lock()
	g.held = append(g.held, one)
	g.mu.Unlock()
	g.valve.prod()
}

// deliverDue delivers what is due, and returns the time until the next change is due.
func (g *gate) pass(now time.Time) time.Duration {
	for {
		g.mu.Lock()
		if g.closed || len(g.held) == 0 || g.sink == nil {
			g.mu.Unlock()
			return time.Hour
		}
		next := g.held[0]
		if wait := next.came.Add(g.delay).Sub(now); wait > 0 {
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
