package metrics

import (
	"bytes"
	"maps"
	"slices"
	"sync"
)

// Registry is all families of a process. It is safe for concurrent use, and nil counts
// nothing.
type Registry struct {
	mu       sync.Mutex
	families map[string]*Family
	before   []func()
}

// NewRegistry has no families yet.
func NewRegistry() *Registry { return &Registry{families: map[string]*Family{}} }

// Counter is the family of that name, which grows; it is made by who asks first. Values of
// its labels are given in the order of their names here.
func (r *Registry) Counter(name, help string, labels ...string) *Family {
	return r.family(Counter, name, help, nil, labels)
}

// Gauge is as Counter, of what goes up and down.
func (r *Registry) Gauge(name, help string, labels ...string) *Family {
	return r.family(Gauge, name, help, nil, labels)
}

// Histogram is as Counter, of durations. Bounds are those of its buckets, in seconds, in
// rising order; see [Latency] and [Queueing].
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

// Before has look called whenever somebody asks, to set what is not counted but looked up.
func (r *Registry) Before(look func()) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = append(r.before, look)
}

// Text is everything, in the order of the families' names.
func (r *Registry) Text() []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	before, families := slices.Clone(r.before), maps.Clone(r.families)
	r.mu.Unlock()
	for _, look := range before {
		look()
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(families)) {
		out.Write(families[name].text())
	}
	return out.Bytes()
}

// Latency are the bounds for what somebody waits for.
func Latency() []float64 {
	return []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10, 30, 60}
}

// Queueing are the bounds that upstream's work queues have.
func Queueing() []float64 {
	return []float64{1e-8, 1e-7, 1e-6, 9.999999999999999e-06, 9.999999999999999e-05, 0.001, 0.01, 0.1, 1, 10, 100, 1000}
}
