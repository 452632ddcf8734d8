package podfalltest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
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

// Break makes a step fail on a node, for all its pods, until Mend. The kubelet tries
// again, as it always does.
func (c *Cluster) Break(node string, step Step) {
	c.t.Helper()
	c.link(node) // fails the test if there is none
	c.broken[node].set(func(steps []Step) []Step { return append(steps, step) })
}

// Mend lets everything on the node succeed again.
func (c *Cluster) Mend(node string) {
	c.t.Helper()
	c.link(node)
	c.broken[node].set(func([]Step) []Step { return nil })
}

// broken is what fails on a node.
type broken struct {
	mu    sync.Mutex
	steps []Step
}

// errBroken is why.
var errBroken = errors.New("broken by the test")

func (b *broken) set(change func([]Step) []Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps = change(b.steps)
}

func (b *broken) try(step Step) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.steps, step) {
		return errBroken
	}
	return nil
}

// Mount implements kubelet.Faults.
func (b *broken) Mount(context.Context, types.UID, string) error { return b.try(Mount) }

// Unmount implements kubelet.Faults.
func (b *broken) Unmount(context.Context, types.UID, string) error { return b.try(Unmount) }

// RemoveDir implements kubelet.Faults.
func (b *broken) RemoveDir(context.Context, types.UID) error { return b.try(RemoveDir) }

// DestroyCgroup implements kubelet.Faults.
func (b *broken) DestroyCgroup(context.Context, types.UID) error { return b.try(DestroyCgroup) }
