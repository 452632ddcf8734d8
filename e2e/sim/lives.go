package sim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/kubelet"
)

// Lived is what became of a life.
type Lived struct {
	Script Script
	// Steps is how many inputs processes were given.
	Steps int
	Log   history.Log
	Store []history.Event
	// Deviations and Jitters are what the network has done.
	Deviations []Deviation
	Jitters    []Window
	// Met counts what the life has met.
	Met map[string]int
	// Err is a process that could not go on, or an end that was not as it should be.
	Err error
}

// cluster is the places of one life.
type cluster struct {
	*World
	script  *Script
	drive   *Drive
	kernels map[string]*Kernel
	down    map[string]int
	exited  bool
}

// eventsAnHour is more than most lives have.
const eventsAnHour = 25_000

// Live plays a script. It must be called in a testing/synctest bubble whose time nobody
// else needs. All that happens is written into trace, unless that is nil: the same bits for
// the same script.
func Live(script Script, trace io.Writer) Lived {
	c := begin(script)
	defer c.End()
	c.trace = newTrace(trace)
	err := errors.Join(c.Run(script.Lasts), c.trace.end())
	store := StoreLog(c.Kept(APIServer, diskStore))
	if err == nil && script.Calm > 0 {
		err = c.right()
	}
	return Lived{
		Script: *c.script, Steps: c.Steps, Log: c.History(), Store: store,
		Deviations: c.net.Deviations, Jitters: c.net.Jitters, Met: c.met(), Err: err,
	}
}

// begin is a cluster at the beginning of a script.
func begin(script Script) *cluster {
	script.sort()
	net := NewNet(script.Seed, script.Trouble, script.Calm)
	if script.Written {
		net.Written(script.Deviations, script.Jitters)
	}
	c := &cluster{
		World: NewWorld(net), script: &script, drive: &Drive{seed: script.Seed},
		kernels: map[string]*Kernel{}, down: map[string]int{},
	}
	c.record.events = make([]history.Event, 0, int(eventsAnHour*script.Lasts.Hours()))
	c.populate()
	c.trouble()
	return c
}

// populate makes the processes.
func (c *cluster) populate() {
	c.Add(APIServer, func() Process { return NewAPIServer(c.drive, c.hooks(), c.exit) }, 0)
	c.Add(Controllers, func() Process { return newControllers(c.World, c.script.resources()) }, time.Second)
	for _, node := range c.script.NodeNames() {
		kernel := NewKernel()
		kernel.catchUp = c.catchUp
		c.kernels[node] = kernel
		c.Add("runtime/"+node, func() Process { return newRuntime(node, kernel) }, time.Second)
		c.Add("kubelet/"+node, func() Process { return newKubelet(node, kernel, kubelet.Default()) }, 2*time.Second)
	}
	c.beTwins()
	c.Add(User, func() Process { return NewUser(c.script) }, 0)
	c.Add(Watcher, func() Process { return NewWatcher(c.script.Seed) }, 0)
}

// take has a process go down; each take needs a give. What is told of it is from the first
// take to the last give.
func (c *cluster) take(process string) {
	if c.down[process]++; c.down[process] == 1 {
		c.Note(nemesis, history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleDown, What: process}})
	}
	c.Crash(process)
}

func (c *cluster) give(process string) {
	if c.down[process]--; c.down[process] == 0 {
		c.Start(process)
		c.Note(nemesis, history.FaultEnd{Trouble: history.Trouble{Kind: history.TroubleDown, What: process}})
	}
}

// exit is what the apiserver does when its disk fails.
func (c *cluster) exit() {
	if !c.exited {
		c.exited = true
		c.take(APIServer)
	}
}

// trouble has the script's faults happen, and writes them down.
func (c *cluster) trouble() {
	c.At(0, func() {
		c.Note(nemesis, history.FaultWatch{Kinds: []history.TroubleKind{
			history.TroubleFault, history.TroubleCut, history.TroubleClock, history.TroubleDown, history.TroublePaused,
		}})
	})
	if c.script.Trouble != (Trouble{}) || c.script.Written && len(c.script.Deviations) > 0 {
		network := history.Trouble{Kind: history.TroubleFault, What: "network"}
		c.At(0, func() { c.Note(nemesis, history.FaultBegin{Trouble: network}) })
		if c.script.Calm > 0 {
			c.At(c.script.Calm, func() { c.Note(nemesis, history.FaultEnd{Trouble: network}) })
		}
	}
	c.breaks()
	c.twins()
	c.misleads()
	for i, deed := range c.script.Deeds {
		if deed.Do == Compact {
			c.At(deed.At, func() { c.drive.Compact = new(int(deed.Count)) })
		}
		if !deed.Do.fault() || deed.Do == BreakPoint || deed.Do == Twin || deed.Do == Mislead {
			continue
		}
		begin, end, kind := c.fault(deed)
		told := history.Trouble{Kind: kind, What: fmt.Sprintf("%s %s #%d", deed.Do, deed.Name, i)}
		if kind == history.TroublePaused {
			told.What = deed.Name
		}
		if deed.Do == CutNode {
			told.CutOff = []string{deed.Name}
		}
		if deed.Ways != "" { // to those who read this, a cut is one of both ways
			told.Kind, told.CutOff = history.TroubleFault, nil
		}
		if kind == history.TroubleDown { // take and give tell
			c.At(deed.At, begin)
			c.At(deed.At+deed.For, end)
			continue
		}
		c.At(deed.At, func() {
			c.Note(nemesis, history.FaultBegin{Trouble: told})
			begin()
		})
		c.At(deed.At+c.lasts(deed), func() {
			end()
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// nemesis is who writes down what was broken.
const nemesis = "nemesis"

// slowFor is how long a disk is slow.
const slowFor = 30 * time.Second

func (c *cluster) lasts(deed Deed) time.Duration {
	if deed.Do == SlowDisk {
		return slowFor
	}
	return deed.For
}

// fault is how a deed begins and ends.
func (c *cluster) fault(deed Deed) (begin, end func(), kind history.TroubleKind) {
	switch deed.Do {
	case CutNode:
		kubelet := "kubelet/" + deed.Name
		var links []Link
		if deed.Ways != "out" {
			links = append(links, Link{APIServer, kubelet}, Link{APIServer, twinOf(deed.Name)})
		}
		if deed.Ways != "in" {
			links = append(links, Link{kubelet, APIServer}, Link{twinOf(deed.Name), APIServer})
		}
		each := func(do func(Link)) func() {
			return func() {
				for _, link := range links {
					do(link)
				}
			}
		}
		return each(c.net.Cut), each(c.net.Heal), history.TroubleCut
	case Crash:
		return func() { c.take(deed.Name) }, func() { c.give(deed.Name) }, history.TroubleDown
	case Reboot:
		kubelet, runtime := "kubelet/"+deed.Name, "runtime/"+deed.Name
		return func() {
				c.take(kubelet)
				c.Crash(twinOf(deed.Name))
				c.take(runtime)
				c.kernels[deed.Name].Reboot()
			}, func() {
				c.give(runtime)
				c.give(kubelet)
			}, history.TroubleFault
	case Pause:
		return func() { c.Pause(deed.Name) }, func() { c.Resume(deed.Name) }, history.TroublePaused
	case SlowDisk:
		return func() { c.drive.Slow += deed.For }, func() { c.drive.Slow -= deed.For }, history.TroubleFault
	case DiskFail:
		return func() { c.drive.Fails = true }, func() {
			c.drive.Fails = false
			if c.exited {
				c.exited = false
				c.give(APIServer)
			}
		}, history.TroubleFault
	case HookBreaks: // the webhook knows by itself
		return func() {}, func() {}, history.TroubleFault
	case CreatePod, DeletePod, ForceDelete, AddFinalizer, RemoveFinalizer, CreateReplicas, CreateStateful, ScaleReplicas,
		ScaleStateful, DeleteReplicas, DeleteStateful, CreateNamespace, DeleteNamespace, OutOfService, BackInService, DeleteNode, Compact, BreakPoint, Twin, Mislead,
		CreateDaemons, DeleteDaemons, CreateJob, DeleteJob, SuspendJob, ResumeJob, DeleteOneOf, CreateBudget, ChangeBudget, DeleteBudget, EvictOneOf,
		Unlabel, Relabel, DeleteAhead, CreateVolume, CreateClaim, CreateHook, DeleteHook, HookDenies,
		CreateDeployment, DeleteDeployment, ScaleDeployment, RollOut, RollBack, PauseRollout, ResumeRollout,
		CreateCronJob, DeleteCronJob, SuspendCronJob, ResumeCronJob:
	}
	panic("sim: nothing breaks by " + string(deed.Do)) // a mistake in the simulator
}

// ErrVoid is a life in which too little has happened to prove anything.
var ErrVoid = errors.New("too little has happened in this life")

// Judge puts a life to the test: every guarantee that its history can show. The error is
// an end that was not as it should be, or the first promise that is broken.
func Judge(lived Lived) ([]guarantees.Result, error) {
	results, err := guarantees.Check(guarantees.Evidence{Log: lived.Log, Store: lived.Store})
	if err = cmp.Or(lived.Err, err); err != nil {
		return results, err
	}
	for _, result := range results {
		if err := result.Err(); err != nil {
			return results, err
		}
	}
	return results, properly(lived.Log.Events)
}
