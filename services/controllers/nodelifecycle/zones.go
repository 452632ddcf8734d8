package nodelifecycle

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is how a zone is.
type State int

// The states of a zone.
const (
	Normal State = iota
	// Partial: more than half of its nodes, and more than two, are not ready.
	Partial
	// Full: none of its nodes is ready.
	Full
)

// unhealthy is the part of a zone's nodes from which it is partially disrupted, and
// largeZone how many nodes a zone must have to be evicted from all the same.
const (
	unhealthy = 0.55
	largeZone = 50
)

// The pauses between two evictions of whole nodes in one zone: 0.1 and 0.01 a second.
const (
	normalPause = 10 * time.Second
	slowPause   = 100 * time.Second
)

// ZoneState judges a zone by the conditions Ready of its nodes (ComputeZoneState).
func ZoneState(ready, notReady int) State {
	switch {
	case ready == 0 && notReady > 0:
		return Full
	case notReady > 2 && float64(notReady)/float64(notReady+ready) >= unhealthy:
		return Partial
	}
	return Normal
}

// Zone names the zone of a node.
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

// queue is the nodes of a zone that wait to be given up, one every pause.
type queue struct {
	state State
	pause time.Duration // 0 for never
	next  time.Time
	nodes []string
}

// Zones is which nodes are to be given up, and how fast. It is owned by one goroutine.
type Zones struct {
	zones map[string]*queue
}

// NewZones knows of none.
func NewZones() *Zones { return &Zones{zones: map[string]*queue{}} }

// Census is how many nodes of a zone are ready and how many are not.
type Census struct{ Ready, NotReady int }

// Change is what follows from the state of all zones together.
type Change struct {
	// Reprieve takes the NoExecute taints off all nodes: none can be heard, so that the
	// fault is with the listener.
	Reprieve bool
	// Restart begins to count every node's silence anew.
	Restart bool
}

// Survey takes in how the zones are (handleDisruption).
func (z *Zones) Survey(zones map[string]Census) Change {
	allFull, allWereFull := true, true
	states := map[string]State{}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		states[name] = ZoneState(zones[name].Ready, zones[name].NotReady)
		if states[name] != Full {
			allFull = false
		}
		if z.zones[name] == nil {
			z.zones[name] = &queue{pause: normalPause}
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
	return Change{Reprieve: allFull, Restart: allWereFull}
}

func (q *queue) set(state State, size int, allFull bool) {
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
		z.zones[zone] = &queue{pause: normalPause}
	}
	if q := z.zones[zone]; !slices.Contains(q.nodes, node) {
		q.nodes = append(q.nodes, node)
	}
}

// Drop takes a node out of whichever queue it is in.
func (z *Zones) Drop(node string) {
	for _, q := range z.zones {
		if i := slices.Index(q.nodes, node); i >= 0 {
			q.nodes = slices.Delete(q.nodes, i, i+1)
		}
	}
}

// Take is the nodes whose turn has come.
func (z *Zones) Take(now time.Time) []string {
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

// Next is when the next turn comes; zero when nobody waits.
func (z *Zones) Next() time.Time {
	var next time.Time
	for _, q := range z.zones {
		if q.pause > 0 && len(q.nodes) > 0 && (next.IsZero() || q.next.Before(next)) {
			next = q.next
		}
	}
	return next
}
