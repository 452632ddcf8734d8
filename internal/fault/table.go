package fault

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/podfall/podfall/internal/clock"
)

// Config configures a Table.
type Config struct {
	// Process is the process of the table, and Node its node, if any.
	Process, Node string
	// Clock measures delays and durations.
	Clock clock.Clock
	// Crash kills the process. If it is nil, a crash is an error.
	Crash func()
	// OnTrigger is called each time a fault takes effect, on the goroutine that it affects. It may
	// be nil.
	Hit func(Fault, Point, About)
}

// Table holds the faults of one process. A nil Table has none.
type Table struct {
	cfg Config

	// faults is read at every injection point, so it needs no lock.
	faults atomic.Pointer[[]Fault]

	mu sync.Mutex
	// changed is closed when the faults change.
	changed chan struct{}
	records map[string]*record
}

// record is the state of one fault in this process.
type record struct {
	fault           Fault
	matched, struck uint64
	// seen counts equal actions, if the fault depends on chance.
	seen tally
}

// occurrenceKey is an occurrence without its time.
type passed struct {
	point Point
	about About
}

// NewTable returns a table without faults.
func NewTable(cfg Config) *Table {
	return &Table{cfg: cfg, changed: make(chan struct{}), records: map[string]*record{}}
}

// Set replaces all faults. Callers that wait for a removed fault continue. A fault that stays keeps
// its counts.
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

// equal reports whether g is the same fault, and not another of its name.
func (f Fault) same(g Fault) bool {
	return f.Name == g.Name && f.Spec == g.Spec && f.Since.Equal(g.Since) && f.Until.Equal(g.Until)
}

// Faults returns all current faults.
func (t *Table) Faults() []Fault {
	if t == nil {
		return nil
	}
	if faults := t.faults.Load(); faults != nil {
		return slices.Clone(*faults)
	}
	return nil
}

// TriggerCounts returns how often each fault took effect in this process, by name.
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

// Inject waits while matching faults delay or hang the action. It returns an injected error, an
// [*Injected], or the error of ctx if ctx ends first.
func (t *Table) Pass(ctx context.Context, point Point, about About) error {
	for _, f := range t.strike(point, about, Error, Hang, Delay, Crash) {
		if err := t.suffer(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// FindFault returns the first fault of the kinds that triggers.
func (t *Table) First(point Point, about About, kinds ...Kind) (Fault, bool) {
	struck := t.strike(point, about, kinds...)
	if len(struck) == 0 {
		return Fault{}, false
	}
	return struck[0], true
}

// FindEffect returns the effect of the first fault of the kinds that triggers.
func (t *Table) Find(point Point, about About, kinds ...Kind) (Effect, bool) {
	f, ok := t.First(point, about, kinds...)
	return f.Spec.Effect, ok
}

// trigger returns every fault of the kinds that triggers.
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

// maxRecent is how many distinct actions a tally keeps at least.
const mostSeen = 4096

// tally counts occurrences of equal actions. An action may be forgotten, and counted from 0 again,
// once maxRecent other actions have occurred since.
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

// applyEffect carries out the effect of one fault.
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

// waitUntilOver waits until the fault is over or ctx ends.
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
