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

// nodeEpochs refuses messages of kubelets that have been replaced (guarantee N6). A node has one
// kubelet at a time, and the newest boot seen is in force for as long as it sends messages. Other
// identities may run several processes, for example controllers with different duties, and are not
// checked.
//
// A boot is only as reliable as the clock of its host. If that clock was set back between two
// starts, the newer kubelet looks like the older one. It is admitted once the other has been silent
// for silenceLimit.
type nodeEpochs struct {
	clock   clock.Clock
	mu      sync.Mutex
	inForce map[proto.Identity]incarnation
}

// incarnation is the boot in force, and when it was last heard, in wall-clock time.
type incarnation struct {
	boot  proto.Boot
	heard time.Time
}

const (
	// silenceLimit is how long a kubelet may be silent, in cluster time, before another boot may
	// take over.
	silenceLimit = 40 * time.Second
	// minSilence is the least wall-clock time for silenceLimit, however fast the cluster's clock
	// is. It is longer than a kubelet's call, so calls of a silent kubelet are over by then.
	minSilence = 5 * time.Second
)

func newNodeEpochs(clk clock.Clock) nodeEpochs {
	return nodeEpochs{clock: clk, inForce: make(map[proto.Identity]incarnation)}
}

// load puts the boots in force that kubelets have written into their nodes, as if they had just
// been heard. The previous apiserver's memory of them is gone.
func (f *nodeEpochs) load(snapshot *store.Snapshot) {
	now := clock.Clock{}.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for record := range snapshot.Scan("nodes", "", "") {
		node, is := record.Object.(*corev1.Node)
		if !is {
			continue
		}
		if boot := proto.Boot(node.Status.NodeInfo.BootID); boot.IsValid() {
			f.inForce[proto.Node(node.Name)] = incarnation{boot, now}
		}
	}
}

// check refuses a node's message if its boot is older than the one in force.
func (f *nodeEpochs) check(id proto.Identity, boot proto.Boot) error {
	if _, node := id.NodeName(); !node {
		return nil
	}
	now := clock.Clock{}.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.inForce[id]
	if boot.OlderThan(current.boot) && now.Sub(current.heard) <= f.clock.ClampWallDuration(minSilence, silenceLimit) {
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf(
			"envelope: boot: %s has begun again as %q, so its boot %q is over", id, current.boot, boot))
	}
	f.inForce[id] = incarnation{boot, now}
	return nil
}
