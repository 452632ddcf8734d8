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

// Kernel holds what of a node outlives its kubelet and its runtime: running programs, mounted
// volumes and injected faults.
type Kernel struct {
	programs map[string]*program
	// mounts are on record on its disk: they outlive a reboot, too.
	mounts map[types.UID][]mount
	// faults are the injected faults of the node.
	faults *fault.Table
	// kubelet is the kubelet that is alive; empty for none.
	kubelet proto.Boot
	counts  counts
	// catchUp has the bubble's time, which the faults go by, be the world's; nil where nothing
	// is broken.
	catchUp func()
}

// counts counts what a run exercised, by name.
type counts map[string]int

func (m counts) add(what string) { m[what]++ }

// mount is a mounted volume; device is the attached volume, if any.
type mount struct {
	pod, volume, path string
	device            corev1.UniqueVolumeName
}

// program is a container's process. Its behavior follows from its script and from the events so
// far.
type program struct {
	script simengine.Script
	events engine.Events
}

// NewKernel returns a machine that has just started.
func NewKernel() *Kernel {
	return &Kernel{programs: map[string]*program{}, mounts: map[types.UID][]mount{}, faults: fault.NewTable(fault.Config{}), counts: counts{}}
}

// devices returns the mounted attachable volumes, in order.
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

// copyOfDisk returns a machine with a copy of the disk.
func (k *Kernel) copyOfDisk() *Kernel {
	other := NewKernel()
	for uid, mounts := range k.mounts {
		other.mounts[uid] = slices.Clone(mounts)
	}
	return other
}

// Reboot ends all programs.
func (k *Kernel) Reboot() { k.programs, k.kubelet = map[string]*program{}, "" }

// Alive returns the ids of the programs that run at now, in order.
func (k *Kernel) Alive(now time.Time) []string {
	var alive []string
	for _, id := range slices.Sorted(maps.Keys(k.programs)) {
		if k.programs[id].at(now).State == proto.ContainerState_CONTAINER_STATE_RUNNING {
			alive = append(alive, id)
		}
	}
	return alive
}

// load starts a recorded program. Recorded effects have happened, even if the runtime crashed
// between the record and the effect.
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
