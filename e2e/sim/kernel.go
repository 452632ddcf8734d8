package sim

import (
	"maps"
	"slices"
	"time"

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

// mount is a volume that is mounted.
type mount struct{ pod, volume, path string }

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

func (p *program) at(now time.Time) engine.Status { return p.script.At(p.events, now) }
