package apiserver

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

// fence keeps out the messages of kubelets that have been replaced (guarantee N6). Of a
// node, which has one kubelet at a time, the newest boot seen is the one that counts,
// for as long as it speaks. Others may run several processes under one identity, such as
// controllers with different duties, and are not fenced.
//
// Boots are as true as the clock of their host. When that was set back between two starts,
// the newer kubelet looks like the older; it is let in once the other has been silent.
type fence struct {
	clock   clock.Clock
	mu      sync.Mutex
	current map[proto.Identity]incarnation
}

// incarnation is the boot that counts, and when it was heard last, on the wall.
type incarnation struct {
	boot  proto.Boot
	heard time.Time
}

const (
	// lease is how long a kubelet may be silent before its node counts as gone.
	lease = 40 * time.Second
	// leastSilence is more than a call of a kubelet lasts, however fast the cluster's
	// clock is: what a silent one has sent is over by then.
	leastSilence = 5 * time.Second
)

func newFence(clk clock.Clock) fence {
	return fence{clock: clk, current: make(map[proto.Identity]incarnation)}
}

// recall has the boots count that kubelets have written into their nodes, as if they had just
// been heard: the apiserver that has heard them is gone.
func (f *fence) recall(snapshot *store.Snapshot) {
	now := clock.Clock{}.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for record := range snapshot.Scan("nodes", "", "") {
		node, is := record.Object.(*corev1.Node)
		if !is {
			continue
		}
		if boot := proto.Boot(node.Status.NodeInfo.BootID); boot.Valid() {
			f.current[proto.Node(node.Name)] = incarnation{boot, now}
		}
	}
}

func (f *fence) admit(id proto.Identity, boot proto.Boot) error {
	if _, node := id.NodeName(); !node {
		return nil
	}
	now := clock.Clock{}.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.current[id]
	if boot.OlderThan(current.boot) && now.Sub(current.heard) <= f.clock.WallWithin(leastSilence, lease) {
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf(
			"envelope: boot: %s has begun again as %q, so its boot %q is over", id, current.boot, boot))
	}
	f.current[id] = incarnation{boot, now}
	return nil
}
