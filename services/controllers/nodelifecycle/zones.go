package nodelifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is the state of a zone.
type State int

// The states of a zone.
const (
	Normal State = iota
	// Partial means that at least 55 % of its nodes, and more than two, are not ready.
	Partial
	// Full means that none of its nodes is ready.
	Full
)

// unhealthy is the part of a zone's nodes from which it is partially disrupted, and
// largeZone how many nodes a zone must have to be evicted from all the same.
const (
	// partialThreshold is the part of a zone's nodes that must be not ready for Partial. largeZone
	// is the size up to which a partially disrupted zone is not evicted from at all.
	partialThreshold = 0.55
	largeZone        = 50
)

// The pauses between two evictions of whole nodes in one zone: 0.1 and 0.01 a second.
const (
	normalPause = 10 * time.Second
	slowPause   = 100 * time.Second
)

// ZoneState returns the state of a zone by the number of its nodes that are ready or not
// (ComputeZoneState).
func ZoneState(ready, notReady int) State {
	switch {
	case ready == 0 && notReady > 0:
		return Full
	case notReady > 2 && float64(notReady)/float64(notReady+ready) >= partialThreshold:
		return Partial
	}
	return Normal
}

// Zone returns the name of a node's zone.
func Zone(node *corev1.Node) string {
	region, zone := node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone]
	if region == "" && zone == "" {
		return ""
	}
	return region + ":\x00:" + zone
}

// Excluded reports whether a node does not count in its zone's state.
func Excluded(node *corev1.Node) bool {
	_, excluded := node.Labels["node.kubernetes.io/exclude-disruption"]
	return excluded
}

// zoneQueue is the nodes of a zone that wait to be tainted, one per pause.
type zoneQueue struct {
	state State
	pause time.Duration // 0 for never
	next  time.Time
	nodes []string
}

// Zones says which nodes to taint, and how fast. It is owned by one goroutine.
type Zones struct {
	zones map[string]*zoneQueue
}

// NewZones returns an empty Zones.
func NewZones() *Zones { return &Zones{zones: map[string]*zoneQueue{}} }

// Census is how many nodes of a zone are ready and how many are not.
type Census struct{ Ready, NotReady int }

// Change is what follows from the state of all zones together.
type Change struct {
	// ClearTaints removes the NoExecute taints of all nodes: no node can be heard, so the fault is
	// probably on our side.
	ClearTaints bool
	// ResetProbes begins to count every node's silence anew.
	ResetProbes bool
}

// Update takes the state of all zones (handleDisruption).
func (z *Zones) Update(zones map[string]Census) Change {
	allFull, allWereFull := true, true
	states := map[string]State{}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		states[name] = ZoneState(zones[name].Ready, zones[name].NotReady)
		if states[name] != Full {
			allFull = false
		}
		if z.zones[name] == nil {
			z.zones[name] = &zoneQueue{pause: normalPause}
		}
	}
	for name, known := range z.zones {
		if _, there := zones[name]; !there {
			delete(z.zones, name)
		} else if known.state != Full {
			allWereFull = false
		}
	}
	if len(zones) == 0 || allFull && allWereFull {
		return Change{}
	}
	for name, known := range z.zones {
		size := zones[name].Ready + zones[name].NotReady
		known.set(states[name], size, allFull)
	}
	return Change{ClearTaints: allFull, ResetProbes: allWereFull}
}

func (q *zoneQueue) set(state State, size int, allFull bool) {
	q.state = state
	switch {
	case allFull, state == Partial && size <= largeZone:
		q.pause = 0
	case state == Partial:
		q.pause = slowPause
	default:
		q.pause = normalPause
	}
}

// Add puts a node in its zone's queue, once.
func (z *Zones) Add(zone, node string) {
	if z.zones[zone] == nil {
		z.zones[zone] = &zoneQueue{pause: normalPause}
	}
	if q := z.zones[zone]; !slices.Contains(q.nodes, node) {
		q.nodes = append(q.nodes, node)
	}
}

// Remove removes a node from its queue.
func (z *Zones) Remove(node string) {
	for _, q := range z.zones {
		if i := slices.Index(q.nodes, node); i >= 0 {
			q.nodes = slices.Delete(q.nodes, i, i+1)
		}
	}
}

// TakeDue removes and returns the nodes that are due.
func (z *Zones) TakeDue(now time.Time) []string {
	var due []string
	for _, name := range slices.Sorted(maps.Keys(z.zones)) {
		q := z.zones[name]
		if q.pause == 0 || len(q.nodes) == 0 || now.Before(q.next) {
			continue
		}
		due = append(due, q.nodes[0])
		q.nodes, q.next = q.nodes[1:], now.Add(q.pause)
	}
	return due
}

// NextDue returns when the next node is due; zero if none waits.
func (z *Zones) NextDue() time.Time {
	var next time.Time
	for _, q := range z.zones {
		if q.pause > 0 && len(q.nodes) > 0 && (next.IsZero() || q.next.Before(next)) {
			next = q.next
		}
	}
	return next
}
