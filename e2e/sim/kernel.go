package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/simengine"
)

// Kernel is what a node has that outlives its kubelet and its runtime: the programs that
// run on it, the volumes that are mounted, what is broken, and who is alive.
type Kernel struct {
	programs map[string]*program
	// mounts are on record on its disk: they outlive a reboot, too.
	mounts map[types.UID][]mount
	// faults are what is broken on it.
	faults *fault.Table
	// kubelet is the kubelet that is alive; empty for none.
	kubelet proto.Boot
	met     met
	// catchUp has the bubble's time, which the faults go by, be the world's; nil where nothing
	// is broken.
	catchUp func()
}

// met counts what a life has met, by what it is called.
type met map[string]int

func (m met) count(what string) { m[what]++ }

// mount is a volume that is mounted; device is what was attached to the node for it, if
// anything was.
type mount struct {
	pod, volume, path string
	device            corev1.UniqueVolumeName
}

// program is a container's process: what it does follows from its script and from what
// has been done to it.
type program struct {
	script simengine.Script
	events engine.Events
}

// NewKernel has just been started.
func NewKernel() *Kernel {
	return &Kernel{programs: map[string]*program{}, mounts: map[types.UID][]mount{}, faults: fault.NewTable(fault.Config{}), met: met{}}
}

// devices are what of what was attached to the node is mounted, in order.
func (k *Kernel) devices() []corev1.UniqueVolumeName {
	found := map[corev1.UniqueVolumeName]bool{}
	for _, mounts := range k.mounts { // a set does not depend on the order
		for _, m := range mounts {
			if m.device != "" {
				found[m.device] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// copied is a machine that has the same on its disk.
func (k *Kernel) copied() *Kernel {
	other := NewKernel()
	for uid, mounts := range k.mounts {
		other.mounts[uid] = slices.Clone(mounts)
	}
	return other
}

// Reboot ends everything that runs.
func (k *Kernel) Reboot() { k.programs, k.kubelet = map[string]*program{}, "" }

// Alive are the ids of the programs that run at now, in order.
func (k *Kernel) Alive(now time.Time) []string {
	var alive []string
	for _, id := range slices.Sorted(maps.Keys(k.programs)) {
		if k.programs[id].at(now).State == proto.ContainerState_CONTAINER_STATE_RUNNING {
			alive = append(alive, id)
		}
	}
	return alive
}

// load makes a program known that its runtime has on record. What is on record has
// happened, even if the runtime's end came between the record and the deed.
func (k *Kernel) load(id string, script simengine.Script, events engine.Events) {
	if k.programs[id] == nil {
		k.programs[id] = &program{script: script}
	}
	p := k.programs[id]
	p.events = engine.Events{
		Start: earliest(p.events.Start, events.Start), Stop: earliest(p.events.Stop, events.Stop), Kill: earliest(p.events.Kill, events.Kill),
	}
}

// earliest is the earlier of two times that are not zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *program) at(now time.Time) engine.Status { return p.script.StatusAt(p.events, now) }
