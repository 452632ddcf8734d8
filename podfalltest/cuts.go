package podfalltest

import (
	"slices"

	"github.com/podfall/podfall/internal/partition"
)

// Way says which direction a cut holds up.
type Way int

// The ways in which a node can be cut off.
const (
	// BothWays holds both directions without any error, like a network that drops packets.
	BothWays Way = iota
	// FromNode holds only what the node sends.
	FromNode
	// ToNode holds only what the node receives.
	ToNode
	// Rejected resets connections and refuses new ones, so that both sides notice at once.
	Rejected
)

// spec returns the cut for w.
func (w Way) spec() CutSpec {
	switch w {
	case FromNode:
		return CutSpec{Direction: partition.FromNode}
	case ToNode:
		return CutSpec{Direction: partition.ToNode}
	case Rejected:
		return CutSpec{Manner: partition.Reset}
	case BothWays:
	}
	return CutSpec{}
}

// CutSpec describes a cut: its targets, duration, latency, bandwidth, flapping, groups, or single
// kinds of message. docs/faults.md explains the fields.
type CutSpec = partition.Spec

// Cut cuts a node's kubelet off from the cluster, both ways by default; its containers keep
// running. As with real networks, open connections notice after some seconds of wall time, or at
// once with [Rejected]. Another Cut of the node replaces this one, and Heal ends it. The apiserver,
// the controllers and the gateway can be cut off too.
func (c *Cluster) Cut(node string, way ...Way) {
	c.t.Helper()
	c.requireMember(node)
	spec := CutSpec{}
	if len(way) > 0 {
		spec = way[0].spec()
	}
	spec.Members = []string{node}
	c.AddCut(node, spec)
}

// AddCut adds any kind of cut under a name:
//
//	c.AddCut("slow", podfalltest.CutSpec{
//	Members: []string{"node-1", "gateway"},
//	Latency: metav1.Duration{Duration: 200 * time.Millisecond},
//	})
//
// It replaces a cut of that name. Durations are cluster time.
func (c *Cluster) AddCut(name string, spec CutSpec) {
	c.t.Helper()
	added, err := partition.New(name, spec, c.parts.Members(), c.clock.Now())
	if err != nil {
		c.t.Fatalf("podfalltest: cut %q: %v", name, err)
	}
	others := slices.DeleteFunc(c.parts.Cuts(), func(cut partition.Cut) bool { return cut.Name == name })
	c.parts.SetCuts(append(others, added)...)
}

// Heal ends every cut that affects a node, and returns when the node is connected again.
func (c *Cluster) Heal(node string) {
	c.t.Helper()
	c.requireMember(node)
	c.parts.SetCuts(slices.DeleteFunc(c.parts.Cuts(), func(cut partition.Cut) bool {
		return slices.Contains(cut.Spec.CutOff(c.parts.Members()), node)
	})...)
	ctx, cancel := c.bounded()
	defer cancel()
	if err := c.parts.AwaitConnected(ctx, node); err != nil {
		c.t.Fatalf("podfalltest: heal: %v", err)
	}
}

// requireMember fails the test if there is no such node or control-plane part.
func (c *Cluster) requireMember(member string) {
	c.t.Helper()
	if members := c.parts.Members(); !slices.Contains(members, member) {
		c.t.Fatalf("podfalltest: there is no node %q; want one of %v", member, members)
	}
}
