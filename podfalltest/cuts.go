package podfalltest

import (
	"slices"

	"github.com/podfall/podfall/internal/partition"
)

// Way is what a cut holds up.
type Way int

// The ways in which a node can be cut off.
const (
	// BothWays is silence: nothing arrives and nobody is told, as when a network drops
	// packets.
	BothWays Way = iota
	// FromNode lets the node hear and not speak.
	FromNode
	// ToNode lets the node speak and not hear.
	ToNode
	// Rejected breaks connections and refuses new ones, so that both sides know at
	// once.
	Rejected
)

// spec is a cut of that way.
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

// CutSpec is who is cut off, how, and for how long: latency, a narrow band, flapping,
// groups, or single kinds of message. docs/faults.md explains it.
type CutSpec = partition.Spec

// Cut cuts a node's kubelet off from the cluster, both ways unless told otherwise; its
// containers run on. Connections that were open notice after some seconds of the wall,
// as real ones do, except with [Rejected]. Another Cut replaces it, Heal ends it. The
// apiserver, the controllers and the gateway can be cut off as a node can.
func (c *Cluster) Cut(node string, way ...Way) {
	c.t.Helper()
	c.mustBe(node)
	spec := CutSpec{}
	if len(way) > 0 {
		spec = way[0].spec()
	}
	spec.Members = []string{node}
	c.AddCut(node, spec)
}

// AddCut is [Cluster.Cut] with all that can be wrong with a network, under a name of the
// test's choice:
//
//	c.AddCut("slow", podfalltest.CutSpec{
//		Parties: []string{"node-1", "gateway"},
//		Latency: metav1.Duration{Duration: 200 * time.Millisecond},
//	})
//
// A cut of that name is replaced. Durations are in the cluster's time.
func (c *Cluster) AddCut(name string, spec CutSpec) {
	c.t.Helper()
	added, err := partition.New(name, spec, c.parts.Parties(), c.clock.Now())
	if err != nil {
		c.t.Fatalf("podfalltest: cut %q: %v", name, err)
	}
	others := slices.DeleteFunc(c.parts.Cuts(), func(cut partition.Cut) bool { return cut.Name == name })
	c.parts.Cut(append(others, added)...)
}

// Heal ends every cut that is about a node, and returns when the node is heard again.
func (c *Cluster) Heal(node string) {
	c.t.Helper()
	c.mustBe(node)
	c.parts.Cut(slices.DeleteFunc(c.parts.Cuts(), func(cut partition.Cut) bool {
		return slices.Contains(cut.Spec.CutOff(c.parts.Parties()), node)
	})...)
	ctx, cancel := c.bounded()
	defer cancel()
	if err := c.parts.Await(ctx, node); err != nil {
		c.t.Fatalf("podfalltest: heal: %v", err)
	}
}

// mustBe fails the test if nobody is called that.
func (c *Cluster) mustBe(party string) {
	c.t.Helper()
	if parties := c.parts.Parties(); !slices.Contains(parties, party) {
		c.t.Fatalf("podfalltest: there is no node %q; want one of %v", party, parties)
	}
}
