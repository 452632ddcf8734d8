package apiserver

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// fence keeps out the messages of kubelets that have been replaced (guarantee N6). Of a
// node, which has one kubelet at a time, the newest boot seen is the one that counts,
// for as long as it speaks. Others may run several processes under one identity, such as
// controllers with different duties, and are not fenced. It begins anew with the
// apiserver: by then nothing older is under way.
//
// Boots are as true as the clock of their host. When that was set back between two starts,
// the newer kubelet looks like the older; it is let in once the other has been silent.
type fence struct {
	silence time.Duration // on the wall
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
	return fence{
		silence: clk.WallWithin(leastSilence, lease),
		current: make(map[proto.Identity]incarnation),
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
	if boot.OlderThan(current.boot) && now.Sub(current.heard) <= f.silence {
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf(
			"envelope: boot: %s has begun again as %q, so its boot %q is over", id, current.boot, boot))
	}
	f.current[id] = incarnation{boot, now}
	return nil
}
