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
	OnTrigger func(Fault, Point, Attributes)
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
	fault              Fault
	matched, triggered uint64
	// seen counts equal actions, if the fault depends on chance.
	seen tally
}

// occurrenceKey is an occurrence without its time.
type occurrenceKey struct {
	point Point
	attrs Attributes
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
		if old, ok := t.records[f.Name]; ok && old.fault.equal(f) {
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
func (f Fault) equal(g Fault) bool {
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
func (t *Table) TriggerCounts() map[string]uint64 {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]uint64{}
	for name, r := range t.records {
		counts[name] = r.triggered
	}
	return counts
}

// Inject waits while matching faults delay or hang the action. It returns an injected error, an
// [*Injected], or the error of ctx if ctx ends first.
func (t *Table) Inject(ctx context.Context, point Point, attrs Attributes) error {
	for _, f := range t.trigger(point, attrs, Error, Hang, Delay, Crash) {
		if err := t.applyEffect(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// FindFault returns the first fault of the kinds that triggers.
func (t *Table) FindFault(point Point, attrs Attributes, kinds ...Kind) (Fault, bool) {
	triggered := t.trigger(point, attrs, kinds...)
	if len(triggered) == 0 {
		return Fault{}, false
	}
	return triggered[0], true
}

// FindEffect returns the effect of the first fault of the kinds that triggers.
func (t *Table) FindEffect(point Point, attrs Attributes, kinds ...Kind) (Effect, bool) {
	f, ok := t.FindFault(point, attrs, kinds...)
	return f.Spec.Effect, ok
}

// trigger returns every fault of the kinds that triggers.
func (t *Table) trigger(point Point, attrs Attributes, kinds ...Kind) []Fault {
	if t == nil {
		return nil
	}
	if faults := t.faults.Load(); faults == nil || len(*faults) == 0 {
		return nil
	}
	attrs.Process = t.cfg.Process
	if attrs.Node == "" {
		attrs.Node = t.cfg.Node
	}
	triggered := t.countAndSelect(occurrence{point, attrs, t.cfg.Clock.Steady()}, kinds)
	if t.cfg.OnTrigger != nil {
		for _, f := range triggered {
			t.cfg.OnTrigger(f, point, attrs)
		}
	}
	return triggered
}

func (t *Table) countAndSelect(p occurrence, kinds []Kind) []Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	var triggered []Fault
	for _, f := range *t.faults.Load() {
		if !slices.Contains(kinds, f.Spec.Effect.Kind) || !f.matches(p) {
			continue
		}
		r, key := t.records[f.Name], occurrenceKey{p.point, p.attrs}
		if f.triggers(p, counts{matched: r.matched, triggered: r.triggered, nth: r.seen.get(key)}) {
			r.triggered++
			triggered = append(triggered, f)
		}
		r.matched++
		if f.Spec.Probability > 0 {
			r.seen.add(key)
		}
	}
	return triggered
}

// maxRecent is how many distinct actions a tally keeps at least.
const maxRecent = 4096

// tally counts occurrences of equal actions. An action may be forgotten, and counted from 0 again,
// once maxRecent other actions have occurred since.
type tally struct{ recent, old map[occurrenceKey]uint64 }

func (t *tally) get(key occurrenceKey) uint64 {
	if n, ok := t.recent[key]; ok {
		return n
	}
	return t.old[key]
}

func (t *tally) add(key occurrenceKey) {
	n := t.get(key) + 1
	if _, ok := t.recent[key]; t.recent == nil || !ok && len(t.recent) == maxRecent {
		t.recent, t.old = map[occurrenceKey]uint64{}, t.recent
	}
	t.recent[key] = n
}

// applyEffect carries out the effect of one fault.
func (t *Table) applyEffect(ctx context.Context, f Fault) error {
	switch f.Spec.Effect.Kind {
	case Delay:
		wait, cancel := t.cfg.Clock.Timeout(ctx, f.Spec.Effect.Delay.Duration)
		defer cancel()
		t.waitUntilOver(wait, f)
		return ctx.Err()
	case Hang:
		t.waitUntilOver(ctx, f)
		return ctx.Err()
	case Crash:
		if t.cfg.Crash != nil {
			t.cfg.Crash()
			<-ctx.Done() // a killed process returns nothing
			return ctx.Err()
		}
		return f.injectedError()
	case Error:
		return f.injectedError()
	case Drop, Duplicate, Expire, Lie, Value: // see FindEffect
	}
	return nil
}

// waitUntilOver waits until the fault is over or ctx ends.
func (t *Table) waitUntilOver(ctx context.Context, f Fault) {
	if !f.Until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = t.cfg.Clock.Timeout(ctx, f.Until.Sub(t.cfg.Clock.Steady()))
		defer cancel()
	}
	for {
		t.mu.Lock()
		changed, r := t.changed, t.records[f.Name]
		t.mu.Unlock()
		if r == nil || !r.fault.equal(f) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
