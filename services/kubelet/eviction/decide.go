// Package eviction ends pods when their node runs out of memory, disk or process ids, or
// when they use more than they may (KBL-83). decide.go, rank.go and usage.go are pure; the
// shell, eviction.go, observes and kills. A node that runs short is a fault, node.pressure,
// or pods that say that they use as much (see [Use]).
package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is a resource that a node can run out of.
type Signal string

// The signals.
const (
	MemoryAvailable Signal = "memory.available"
	NodefsAvailable Signal = "nodefs.available"
	PIDAvailable    Signal = "pid.available"
)

// signals returns all signals, memory first: it is reclaimed first.
func signals() []Signal { return []Signal{MemoryAvailable, NodefsAvailable, PIDAvailable} }

// condition returns the pressure that a node reports when it runs short.
func (s Signal) condition() corev1.NodeConditionType {
	switch s {
	case MemoryAvailable:
		return corev1.NodeMemoryPressure
	case NodefsAvailable:
		return corev1.NodeDiskPressure
	case PIDAvailable:
	}
	return corev1.NodePIDPressure
}

// resource returns the resource that an eviction reclaims.
func (s Signal) resource() corev1.ResourceName {
	switch s {
	case MemoryAvailable:
		return corev1.ResourceMemory
	case NodefsAvailable:
		return corev1.ResourceEphemeralStorage
	case PIDAvailable:
	}
	return "pids"
}

// Threshold is how little there may be of a resource.
type Threshold struct {
	Signal Signal
	// Quantity must be available or, if it is not set, Percent of the capacity.
	Quantity resource.Quantity
	Percent  float64
	// Grace is how long less may be available before pods are evicted. A threshold with a grace is
	// soft: pods end with a grace. One without is hard: pods end at once.
	Grace time.Duration
}

// Config says when pods are evicted.
type Config struct {
	Limits
	Timing
}

// Limits are how little a node may have left.
type Limits struct {
	Thresholds []Threshold
	// MaxPodGrace limits the grace of a pod that a soft threshold ends, in seconds.
	MaxPodGrace int64
}

// Timing holds the intervals of eviction.
type Timing struct {
	// Transition is how long a pressure is reported after it was last observed.
	Transition time.Duration
	// Period is the interval of observations. CleanUp is the longest wait for an evicted pod to be
	// gone before the next.
	Period, CleanUp time.Duration
}

// Default returns upstream's timing.
func Default() Timing {
	return Timing{Transition: 5 * time.Minute, Period: 10 * time.Second, CleanUp: 30 * time.Second}
}

// Thresholds returns upstream's hard thresholds; it has no soft ones. The threshold of pids is
// podfall's own.
func Thresholds() []Threshold {
	return []Threshold{
		{Signal: MemoryAvailable, Quantity: resource.MustParse("100Mi")},
		{Signal: NodefsAvailable, Percent: 10},
		{Signal: PIDAvailable, Percent: 5},
	}
}

// Observation is the capacity of a resource, and how much is available.
type Observation struct{ Available, Capacity int64 }

// minAvailable returns how much must be available.
func (t Threshold) minAvailable(o Observation) int64 {
	if t.Quantity.IsZero() {
		return int64(t.Percent / 100 * float64(o.Capacity))
	}
	return t.Quantity.Value()
}

// State is what is remembered from one observation to the next. It is a value: Observe returns the
// next state.
type State struct {
	// metSince says since when each threshold has been met, by its index.
	metSince map[int]time.Time
	// lastSeen says when each pressure was last observed.
	lastSeen map[corev1.NodeConditionType]time.Time
}

// Finding is the result of an observation.
type Finding struct {
	// Pressures are to be reported, in the order of their names.
	Pressures []corev1.NodeConditionType
	// Starved is the threshold for which a pod must be evicted; nil for none.
	Starved *Threshold
	// Observed is the observation of the starved signal.
	Observed Observation
}

// Observe returns the state after an observation, and what to do.
func (s State) Observe(observed map[Signal]Observation, cfg Config, now time.Time) (State, Finding) {
	next := State{metSince: map[int]time.Time{}, lastSeen: maps.Clone(s.lastSeen)}
	if next.lastSeen == nil {
		next.lastSeen = make(map[corev1.NodeConditionType]time.Time)
	}
	for i, t := range cfg.Thresholds {
		o, known := observed[t.Signal]
		if !known || o.Available >= t.minAvailable(o) {
			continue
		}
		next.metSince[i] = now
		if since, before := s.metSince[i]; before {
			next.metSince[i] = since
		}
		next.lastSeen[t.Signal.condition()] = now
	}
	var finding Finding
	maps.DeleteFunc(next.lastSeen, func(_ corev1.NodeConditionType, at time.Time) bool { return now.Sub(at) >= cfg.Transition && at != now })
	finding.Pressures = slices.Sorted(maps.Keys(next.lastSeen))
	if i, starved := next.starved(cfg, now); starved {
		finding.Starved, finding.Observed = &cfg.Thresholds[i], observed[cfg.Thresholds[i].Signal]
	}
	return next, finding
}

// starved returns the threshold that has been met for its whole grace: memory before the others,
// hard before soft.
func (s State) starved(cfg Config, now time.Time) (int, bool) {
	best, found := 0, false
	before := func(a, b Threshold) bool {
		x, y := slices.Index(signals(), a.Signal), slices.Index(signals(), b.Signal)
		return x < y || x == y && a.Grace < b.Grace
	}
	for i, since := range s.metSince {
		if t := cfg.Thresholds[i]; now.Sub(since) >= t.Grace && (!found || before(t, cfg.Thresholds[best])) {
			best, found = i, true
		}
	}
	return best, found
}

// ImmediateGrace is the grace of a pod that must end at once, in seconds.
const ImmediateGrace int64 = 1

// grace returns the grace of an evicted pod in seconds.
func (t Threshold) grace(pod *corev1.Pod, cfg Config) int64 {
	if t.Grace == 0 {
		return ImmediateGrace
	}
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < cfg.MaxPodGrace {
		return *own
	}
	return cfg.MaxPodGrace
}

// evictionMessage says why a pod was evicted, in upstream's words.
func evictionMessage(f Finding, victim Pod) string {
	name := f.Starved.Signal.resource()
	least := resource.NewQuantity(f.Starved.minAvailable(f.Observed), resource.BinarySI)
	left := resource.NewQuantity(f.Observed.Available, resource.BinarySI)
	var text strings.Builder
	fmt.Fprintf(&text, "The node was low on resource: %v. Threshold quantity: %v, available: %v. ", name, least, left)
	for _, c := range slices.Concat(victim.Spec.Spec.InitContainers, victim.Spec.Spec.Containers) {
		used, asked := victim.Uses[c.Name][name], c.Resources.Requests[name]
		if used.Cmp(asked) > 0 {
			fmt.Fprintf(&text, "Container %s was using %s, request is %s, has larger consumption of %v. ", c.Name, used.String(), asked.String(), name)
		}
	}
	return text.String()
}
