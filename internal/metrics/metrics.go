// Package metrics counts what a process does, and writes the counts in Prometheus' text format
// under the names of Kubernetes' components. It does not use Prometheus' client library, which
// costs every process of the binary 6 ms at its start.
//
//	metrics.go    families: counters, gauges, histograms
//	registry.go   all families of a process
//	cluster.go    PURE: merges the texts of several processes
//
// # Disabled metrics
//
// A nil [Registry] returns nil families, whose methods do nothing. So a process without a registry
// counts nothing.
package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is the type of a family.
type Kind string

// The kinds of families.
const (
	// Counter only grows.
	Counter Kind = "counter"
	// Gauge goes up and down.
	Gauge Kind = "gauge"
	// Histogram counts durations by their length, in seconds.
	Histogram Kind = "histogram"
)

// Family is one metric with all its label values. It is safe for concurrent use.
type Family struct {
	name, help string
	kind       Kind
	labels     []string
	// bounds are the upper bounds of a histogram's buckets, in seconds.
	bounds []float64

	mu     sync.Mutex
	series map[string]*series
}

// series is one metric with one set of label values.
type series struct {
	// labels are in text form: a="1",b="2".
	labels string
	value  float64
	// buckets count observations up to the bound of the same index.
	buckets []uint64
	count   uint64
}

// Add adds to the value under labels, given in the order of their names.
func (f *Family) Add(amount float64, labels ...string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seriesFor(labels).value += amount
}

// Set sets the value under labels.
func (f *Family) Set(value float64, labels ...string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seriesFor(labels).value = value
}

// Observe counts a duration under labels.
func (f *Family) Observe(took time.Duration, labels ...string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.seriesFor(labels)
	s.value += took.Seconds()
	s.count++
	for i, bound := range f.bounds {
		if took.Seconds() <= bound {
			s.buckets[i]++
		}
	}
}

func (f *Family) seriesFor(labels []string) *series {
	key := strings.Join(labels, "\x00")
	found := f.series[key]
	if found == nil {
		pairs := make([]string, len(f.labels))
		for i, name := range f.labels {
			pairs[i] = name + "=" + quoteLabel(labels[i])
		}
		found = &series{labels: strings.Join(pairs, ","), buckets: make([]uint64, len(f.bounds))}
		f.series[key] = found
	}
	return found
}

// quoteLabel quotes a label value for the text format.
func quoteLabel(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

// formatText returns the family with its series ordered by labels.
func (f *Family) formatText() []byte {
	w := &bytes.Buffer{}
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[key]
		if f.kind != Histogram {
			fmt.Fprintf(w, "%s%s %s\n", f.name, joinLabels(s.labels), formatNumber(s.value))
			continue
		}
		for i, bound := range f.bounds {
			fmt.Fprintf(w, "%s_bucket%s %d\n", f.name, joinLabels(s.labels, "le="+quoteLabel(formatNumber(bound))), s.buckets[i])
		}
		fmt.Fprintf(w, "%s_bucket%s %d\n", f.name, joinLabels(s.labels, `le="+Inf"`), s.count)
		fmt.Fprintf(w, "%s_sum%s %s\n", f.name, joinLabels(s.labels), formatNumber(s.value))
		fmt.Fprintf(w, "%s_count%s %d\n", f.name, joinLabels(s.labels), s.count)
	}
	return w.Bytes()
}

func joinLabels(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func formatNumber(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
