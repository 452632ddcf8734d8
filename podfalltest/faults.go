package podfalltest

import (
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/fault"
)

// Step is an action of a kubelet for a pod that a test can make fail. How a container misbehaves,
// for example by ignoring SIGTERM, is set in its script.
type Step int

// The steps. Each but the first is part of a pod's end: while it fails, the pod's object
// stays.
const (
	// Mount mounts a volume before the containers start.
	Mount Step = iota
	// Unmount unmounts a volume after they have ended.
	Unmount
	// RemoveDir removes the pod's directory.
	RemoveDir
	// DestroyCgroup removes the pod's cgroup.
	DestroyCgroup
)

// stepPoints returns the fault point of each step, in their order.
func stepPoints() []fault.Point {
	return []fault.Point{fault.VolumeMount, fault.VolumeUnmount, fault.VolumeRemoveDir, fault.CgroupDestroy}
}

// Break makes a step fail on a node, for all its pods, until Mend. The kubelet retries as usual. It
// is a shorthand for [Cluster.AddFault].
func (c *Cluster) Break(node string, step Step) {
	c.t.Helper()
	c.requireNode(node)
	point := stepPoints()[step]
	c.AddFault(breakPrefix(node)+string(point), FaultSpec{
		Point: point, Where: FaultAbout{Node: node}, Effect: FaultEffect{Kind: fault.Error, Message: "broken by the test"},
	})
}

// Mend ends all faults that Break has added for the node.
func (c *Cluster) Mend(node string) {
	c.t.Helper()
	c.requireNode(node)
	c.parts.SetFaults(slices.DeleteFunc(c.parts.Faults(), func(f fault.Fault) bool {
		return strings.HasPrefix(f.Name, breakPrefix(node))
	})...)
}

// requireNode fails the test if there is no such node.
func (c *Cluster) requireNode(node string) {
	c.t.Helper()
	if !slices.Contains(c.Nodes(), node) {
		c.t.Fatalf("podfalltest: there is no node %q; want one of %v", node, c.Nodes())
	}
}

// breakPrefix returns the name prefix of the faults that Break adds for a node.
func breakPrefix(node string) string { return node + ".breaks." }

// FaultSpec describes a fault: where it applies, its effect, and how often; docs/faults.md lists
// the points and effects.
type FaultSpec = fault.Spec

// FaultAbout selects where a fault applies.
type FaultAbout = fault.Attributes

// FaultEffect is the effect of a fault.
type FaultEffect = fault.Effect

// FaultPoint is a place where faults can be injected: "volume.unmount", "cri.StopContainer".
type FaultPoint = fault.Point

// FaultKind is a kind of effect: "error", "hang".
type FaultKind = fault.Kind

// AddFault injects a fault from now on, under a name:
//
//	c.AddFault("csi", podfalltest.FaultSpec{
//	Point:  "volume.unmount",
//	Where:  podfalltest.FaultAbout{Node: "node-1", Pod: "web-*"},
//	Effect: podfalltest.FaultEffect{Kind: "hang"},
//	Count:  3,
//	})
//
// It replaces a fault of that name. Durations and delays are cluster time.
func (c *Cluster) AddFault(name string, spec FaultSpec) {
	c.t.Helper()
	added, err := fault.New(name, spec, c.clock.Now())
	if err != nil {
		c.t.Fatalf("podfalltest: fault %q: %v", name, err)
	}
	c.parts.SetFaults(append(withoutFault(c.parts.Faults(), name), added)...)
}

// ClearFault ends a fault; operations that hang in it continue.
func (c *Cluster) ClearFault(name string) {
	c.t.Helper()
	before := c.parts.Faults()
	after := withoutFault(before, name)
	if len(after) == len(before) {
		c.t.Fatalf("podfalltest: there is no fault %q", name)
	}
	c.parts.SetFaults(after...)
}

func withoutFault(faults []fault.Fault, name string) []fault.Fault {
	return slices.DeleteFunc(faults, func(f fault.Fault) bool { return f.Name == name })
}
