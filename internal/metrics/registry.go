package metrics

import (
	"bytes"
	"maps"
	"slices"
	"sync"
)

// Registry holds all families of a process. It is safe for concurrent use; a nil Registry counts
// nothing.
type Registry struct {
	mu         sync.Mutex
	families   map[string]*Family
	collectors []func()
}

// NewRegistry returns a registry without families.
func NewRegistry() *Registry { return &Registry{families: map[string]*Family{}} }

// Counter returns the counter family of that name, created on first use. Label values are given in
// the order of these names.
func (r *Registry) Counter(name, help string, labels ...string) *Family {
	return r.family(Counter, name, help, nil, labels)
}

// Gauge is like Counter, for values that go up and down.
func (r *Registry) Gauge(name, help string, labels ...string) *Family {
	return r.family(Gauge, name, help, nil, labels)
}

// Histogram is like Counter, for durations. The bounds are those of its buckets, in seconds, in
// rising order; see [LatencyBuckets] and [WorkQueueBuckets].
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) *Family {
	return r.family(Histogram, name, help, bounds, labels)
}

func (r *Registry) family(kind Kind, name, help string, bounds []float64, labels []string) *Family {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.families[name]
	if known == nil {
		known = &Family{name: name, help: help, kind: kind, labels: labels, bounds: bounds, series: map[string]*series{}}
		r.families[name] = known
	}
	return known
}

// OnCollect registers a function that is called before each Text, to set values that are looked up
// instead of counted.
func (r *Registry) OnCollect(look func()) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collectors = append(r.collectors, look)
}

// Text returns all families, ordered by name.
func (r *Registry) Text() []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	before, families := slices.Clone(r.collectors), maps.Clone(r.families)
	r.mu.Unlock()
	for _, look := range before {
		look()
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(families)) {
		out.Write(families[name].formatText())
	}
	return out.Bytes()
}

// LatencyBuckets returns buckets for request latencies.
func LatencyBuckets() []float64 {
	return []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10, 30, 60}
}

// WorkQueueBuckets returns the buckets of upstream's work queues.
func WorkQueueBuckets() []float64 {
	return []float64{1e-8, 1e-7, 1e-6, 9.999999999999999e-06, 9.999999999999999e-05, 0.001, 0.01, 0.1, 1, 10, 100, 1000}
}
