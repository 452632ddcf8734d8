package podfalltest

import (
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/fault"
)

// Step is something that a kubelet does for a pod on its node, and that can fail. What a
// container does wrong, such as ignoring SIGTERM, is its script's to say.
type Step int

// The steps. Each but the first is part of a pod's end: while it fails, the pod's object
// stays.
const (
	// Mount mounts a volume before the containers start.
	Mount Step = iota
	// Unmount unmounts one after they have ended.
	Unmount
	// RemoveDir removes the pod's directory.
	RemoveDir
	// DestroyCgroup removes the pod's cgroup.
	DestroyCgroup
)

// points are where the steps are broken, in their order.
func points() []fault.Point {
	return []fault.Point{fault.VolumeMount, fault.VolumeUnmount, fault.VolumeRemoveDir, fault.CgroupDestroy}
}

// Break makes a step fail on a node, for all its pods, until Mend. The kubelet tries
// again, as it always does. It is [Cluster.AddFault] for the usual case.
func (c *Cluster) Break(node string, step Step) {
	c.t.Helper()
	c.mustHave(node)
	point := points()[step]
	c.AddFault(brokenOn(node)+string(point), FaultSpec{
		Point: point, Where: FaultAbout{Node: node}, Effect: FaultEffect{Kind: fault.Error, Message: "broken by the test"},
	})
}

// Mend lets every step on the node succeed again.
func (c *Cluster) Mend(node string) {
	c.t.Helper()
	c.mustHave(node)
	c.parts.Break(slices.DeleteFunc(c.parts.Broken(), func(f fault.Fault) bool {
		return strings.HasPrefix(f.Name, brokenOn(node))
	})...)
}

// mustHave fails the test if there is no such node.
func (c *Cluster) mustHave(node string) {
	c.t.Helper()
	if !slices.Contains(c.Nodes(), node) {
		c.t.Fatalf("podfalltest: there is no node %q; want one of %v", node, c.Nodes())
	}
}

// brokenOn begins the names of the faults that Break adds.
func brokenOn(node string) string { return node + ".breaks." }

// FaultSpec is what goes wrong, where, and how often; docs/faults.md lists the points and
// their effects.
type FaultSpec = fault.Spec

// FaultAbout selects what is struck.
type FaultAbout = fault.Attributes

// FaultEffect is what happens instead.
type FaultEffect = fault.Effect

// FaultPoint is where something can go wrong: "volume.unmount", "cri.StopContainer".
type FaultPoint = fault.Point

// FaultKind is a kind of effect: "error", "hang".
type FaultKind = fault.Kind

// AddFault makes something go wrong from now on, under a name of the test's choice:
//
//	c.AddFault("csi", podfalltest.FaultSpec{
//		Point:  "volume.unmount",
//		Where:  podfalltest.FaultAbout{Node: "node-1", Pod: "web-*"},
//		Effect: podfalltest.FaultEffect{Kind: "hang"},
//		Count:  3,
//	})
//
// A fault of that name is replaced. Durations and delays are in the cluster's time.
func (c *Cluster) AddFault(name string, spec FaultSpec) {
	c.t.Helper()
	added, err := fault.New(name, spec, c.clock.Now())
	if err != nil {
		c.t.Fatalf("podfalltest: fault %q: %v", name, err)
	}
	c.parts.Break(append(without(c.parts.Broken(), name), added)...)
}

// ClearFault ends a fault; whatever hangs in it goes on.
func (c *Cluster) ClearFault(name string) {
	c.t.Helper()
	before := c.parts.Broken()
	after := without(before, name)
	if len(after) == len(before) {
		c.t.Fatalf("podfalltest: there is no fault %q", name)
	}
	c.parts.Break(after...)
}

func without(faults []fault.Fault, name string) []fault.Fault {
	return slices.DeleteFunc(faults, func(f fault.Fault) bool { return f.Name == name })
}
