package fault

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/podfall/podfall/internal/clock"
)

// Config is what a Table works with.
type Config struct {
	// Process is the process that asks, and Node the node that it belongs to, if it does.
	Process, Node string
	// Clock measures delays and durations.
	Clock clock.Clock
	// Crash kills the process; without it a crash is an error.
	Crash func()
	// Hit is told each time a fault strikes, from the goroutine that it strikes; it may be
	// nil.
	Hit func(Fault, Point, About)
}

// Table is what is broken, as one process sees it. A nil Table is whole.
type Table struct {
	cfg Config

	// faults is read wherever something may go wrong, which is everywhere.
	faults atomic.Pointer[[]Fault]

	mu sync.Mutex
	// changed is closed when there are other faults.
	changed chan struct{}
	records map[string]*record
}

// record is what the process remembers of a fault.
type record struct {
	fault           Fault
	matched, struck uint64
	// seen counts the times of each thing, where chance needs it.
	seen tally
}

// passed is what comes by, whenever.
type passed struct {
	point Point
	about About
}

// NewTable is a whole table.
func NewTable(cfg Config) *Table {
	return &Table{cfg: cfg, changed: make(chan struct{}), records: map[string]*record{}}
}

// Set makes faults all that is broken. Who waits for a fault that is not among them goes
// on; one that was there before goes on counting.
func (t *Table) Set(faults []Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	records := make(map[string]*record, len(faults))
	for _, f := range faults {
		if old, ok := t.records[f.Name]; ok && old.fault.same(f) {
			records[f.Name] = old
			continue
		}
		records[f.Name] = &record{fault: f}
	}
	t.records = records
	faults = slices.Clone(faults)
	t.faults.Store(&faults)
	close(t.changed)
	t.changed = make(chan struct{})
}

// same reports whether g is f, and not another fault of its name.
func (f Fault) same(g Fault) bool {
	return f.Name == g.Name && f.Spec == g.Spec && f.Since.Equal(g.Since) && f.Until.Equal(g.Until)
}

// Faults is all that is broken.
func (t *Table) Faults() []Fault {
	if t == nil {
		return nil
	}
	if faults := t.faults.Load(); faults != nil {
		return slices.Clone(*faults)
	}
	return nil
}

// Struck is how often each fault has struck in this process, by its name.
func (t *Table) Struck() map[string]uint64 {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]uint64{}
	for name, r := range t.records {
		counts[name] = r.struck
	}
	return counts
}

// Pass waits for as long as faults delay or hang what comes by, and returns the error
// that one injects, an [*Injected], or that of ctx when it ends first.
func (t *Table) Pass(ctx context.Context, point Point, about About) error {
	for _, f := range t.strike(point, about, Error, Hang, Delay, Crash) {
		if err := t.suffer(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// First is the first fault of the kinds that strikes what comes by.
func (t *Table) First(point Point, about About, kinds ...Kind) (Fault, bool) {
	struck := t.strike(point, about, kinds...)
	if len(struck) == 0 {
		return Fault{}, false
	}
	return struck[0], true
}

// Find is the effect of the first fault of the kinds that strikes what comes by.
func (t *Table) Find(point Point, about About, kinds ...Kind) (Effect, bool) {
	f, ok := t.First(point, about, kinds...)
	return f.Spec.Effect, ok
}

// strike is every fault of the kinds that strikes what comes by.
func (t *Table) strike(point Point, about About, kinds ...Kind) []Fault {
	if t == nil {
		return nil
	}
	if faults := t.faults.Load(); faults == nil || len(*faults) == 0 {
		return nil
	}
	about.Process = t.cfg.Process
	if about.Node == "" {
		about.Node = t.cfg.Node
	}
	struck := t.count(passage{point, about, t.cfg.Clock.Steady()}, kinds)
	if t.cfg.Hit != nil {
		for _, f := range struck {
			t.cfg.Hit(f, point, about)
		}
	}
	return struck
}

func (t *Table) count(p passage, kinds []Kind) []Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	var struck []Fault
	for _, f := range *t.faults.Load() {
		if !slices.Contains(kinds, f.Spec.Effect.Kind) || !f.selects(p) {
			continue
		}
		r, what := t.records[f.Name], passed{p.point, p.about}
		if f.strikes(p, history{matched: r.matched, struck: r.struck, nth: r.seen.of(what)}) {
			r.struck++
			struck = append(struck, f)
		}
		r.matched++
		if f.Spec.Probability > 0 {
			r.seen.add(what)
		}
	}
	return struck
}

// mostSeen is how many things a tally tells apart for sure.
const mostSeen = 4096

// tally counts how often things came by: those of which there were fewer than [mostSeen]
// others since. What has not come for longer may be forgotten, and is counted from 0 again.
type tally struct{ young, old map[passed]uint64 }

func (t *tally) of(what passed) uint64 {
	if n, ok := t.young[what]; ok {
		return n
	}
	return t.old[what]
}

func (t *tally) add(what passed) {
	n := t.of(what) + 1
	if _, ok := t.young[what]; t.young == nil || !ok && len(t.young) == mostSeen {
		t.young, t.old = map[passed]uint64{}, t.young
	}
	t.young[what] = n
}

// suffer is the effect of one fault.
func (t *Table) suffer(ctx context.Context, f Fault) error {
	switch f.Spec.Effect.Kind {
	case Delay:
		wait, cancel := t.cfg.Clock.Timeout(ctx, f.Spec.Effect.Delay.Duration)
		defer cancel()
		t.outlast(wait, f)
		return ctx.Err()
	case Hang:
		t.outlast(ctx, f)
		return ctx.Err()
	case Crash:
		if t.cfg.Crash != nil {
			t.cfg.Crash()
			<-ctx.Done() // nobody hears from a process that was killed
			return ctx.Err()
		}
		return f.injected()
	case Error:
		return f.injected()
	case Drop, Duplicate, Expire, Lie, Value: // Find's
	}
	return nil
}

// outlast waits until the fault is over or ctx ends.
func (t *Table) outlast(ctx context.Context, f Fault) {
	if !f.Until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = t.cfg.Clock.Timeout(ctx, f.Until.Sub(t.cfg.Clock.Steady()))
		defer cancel()
	}
	for {
		t.mu.Lock()
		changed, r := t.changed, t.records[f.Name]
		t.mu.Unlock()
		if r == nil || !r.fault.same(f) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
