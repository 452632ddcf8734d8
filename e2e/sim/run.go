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

// Result is the result of a run.
type Result struct {
	Script Script
	// Steps counts the inputs given to processes.
	Steps int
	Log   history.Log
	Store []history.Event
	// Deviations and Jitters are what the network did.
	Deviations []Deviation
	Jitters    []Window
	// Coverage counts what the run exercised, by name.
	Coverage map[string]int
	// Err is a process that could not go on, or a wrong final state.
	Err error
}

// cluster holds the processes and machines of one run.
type cluster struct {
	*World
	script  *Script
	drive   *Drive
	kernels map[string]*Kernel
	down    map[string]int
	exited  bool
}

// eventsPerHour is the capacity reserved for events; most runs have fewer.
const eventsPerHour = 25_000

// Run runs a script. Call it in a testing/synctest bubble whose time nothing else uses. If trace is
// not nil, all events are written to it: the same bits for the same script.
func Run(script Script, trace io.Writer) Result {
	c := newCluster(script)
	defer c.End()
	c.trace = newTrace(trace)
	err := errors.Join(c.Run(script.Duration), c.trace.end())
	store := StoreLog(c.Persisted(APIServer, diskStore))
	if err == nil && script.FaultsEnd > 0 {
		err = c.checkFinalState()
	}
	return Result{
		Script: *c.script, Steps: c.Steps, Log: c.History(), Store: store,
		Deviations: c.net.Deviations, Jitters: c.net.Jitters, Coverage: c.coverage(), Err: err,
	}
}

// newCluster returns a cluster at the start of a script.
func newCluster(script Script) *cluster {
	script.sort()
	net := NewNet(script.Seed, script.NetFaults, script.FaultsEnd)
	if script.Recorded {
		net.Replay(script.Deviations, script.Jitters)
	}
	c := &cluster{
		World: NewWorld(net), script: &script, drive: &Drive{seed: script.Seed},
		kernels: map[string]*Kernel{}, down: map[string]int{},
	}
	c.record.events = make([]history.Event, 0, int(eventsPerHour*script.Duration.Hours()))
	c.addProcesses()
	c.planFaults()
	return c
}

// addProcesses adds all processes.
func (c *cluster) addProcesses() {
	c.Add(APIServer, func() Process { return NewAPIServer(c.drive, c.hooks(), c.apiserverExit) }, 0)
	c.Add(Controllers, func() Process { return newControllers(c.World, c.script.followedResources()) }, time.Second)
	for _, node := range c.script.NodeNames() {
		kernel := NewKernel()
		kernel.catchUp = c.catchUp
		c.kernels[node] = kernel
		c.Add("runtime/"+node, func() Process { return newRuntime(node, kernel) }, time.Second)
		c.Add("kubelet/"+node, func() Process { return newKubelet(node, kernel, kubelet.Default()) }, 2*time.Second)
	}
	c.addOldKubelets()
	c.Add(User, func() Process { return NewUser(c.script) }, 0)
	c.Add(Watcher, func() Process { return NewWatcher(c.script.Seed) }, 0)
}

// takeDown crashes a process; each takeDown needs a bringUp. The recorded outage lasts from the
// first takeDown to the last bringUp.
func (c *cluster) takeDown(process string) {
	if c.down[process]++; c.down[process] == 1 {
		c.Note(nemesis, history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleDown, What: process}})
	}
	c.Crash(process)
}

func (c *cluster) bringUp(process string) {
	if c.down[process]--; c.down[process] == 0 {
		c.Start(process)
		c.Note(nemesis, history.FaultEnd{Trouble: history.Trouble{Kind: history.TroubleDown, What: process}})
	}
}

// apiserverExit ends the apiserver when its disk fails.
func (c *cluster) apiserverExit() {
	if !c.exited {
		c.exited = true
		c.takeDown(APIServer)
	}
}

// planFaults schedules the script's faults, and records them.
func (c *cluster) planFaults() {
	c.At(0, func() {
		c.Note(nemesis, history.FaultWatch{Kinds: []history.TroubleKind{
			history.TroubleFault, history.TroubleCut, history.TroubleClock, history.TroubleDown, history.TroublePaused,
		}})
	})
	if c.script.NetFaults != (FaultRates{}) || c.script.Recorded && len(c.script.Deviations) > 0 {
		network := history.Trouble{Kind: history.TroubleFault, What: "network"}
		c.At(0, func() { c.Note(nemesis, history.FaultBegin{Trouble: network}) })
		if c.script.FaultsEnd > 0 {
			c.At(c.script.FaultsEnd, func() { c.Note(nemesis, history.FaultEnd{Trouble: network}) })
		}
	}
	c.planPointFaults()
	c.planTwins()
	c.planClockFaults()
	for i, deed := range c.script.Actions {
		if deed.Kind == Compact {
			c.At(deed.At, func() { c.drive.Compact = new(int(deed.Count)) })
		}
		if !deed.Kind.isFault() || deed.Kind == FaultAtPoint || deed.Kind == SecondKubelet || deed.Kind == SkewClock {
			continue
		}
		begin, end, kind := c.faultOf(deed)
		told := history.Trouble{Kind: kind, What: fmt.Sprintf("%s %s #%d", deed.Kind, deed.Name, i)}
		if kind == history.TroublePaused {
			told.What = deed.Name
		}
		if deed.Kind == CutNode {
			told.CutOff = []string{deed.Name}
		}
		if deed.Detail != "" { // to those who read this, a cut is one of both ways
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
		c.At(deed.At+c.faultDuration(deed), func() {
			end()
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// nemesis is the process name under which faults are recorded.
const nemesis = "nemesis"

// slowFor is how long a disk stays slow.
const slowFor = 30 * time.Second

func (c *cluster) faultDuration(deed Action) time.Duration {
	if deed.Kind == SlowDisk {
		return slowFor
	}
	return deed.For
}

// faultOf returns how to begin and end a fault.
func (c *cluster) faultOf(deed Action) (begin, end func(), kind history.TroubleKind) {
	switch deed.Kind {
	case CutNode:
		kubelet := "kubelet/" + deed.Name
		var links []Link
		if deed.Detail != "out" {
			links = append(links, Link{APIServer, kubelet}, Link{APIServer, oldKubeletOf(deed.Name)})
		}
		if deed.Detail != "in" {
			links = append(links, Link{kubelet, APIServer}, Link{oldKubeletOf(deed.Name), APIServer})
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
		return func() { c.takeDown(deed.Name) }, func() { c.bringUp(deed.Name) }, history.TroubleDown
	case Reboot:
		kubelet, runtime := "kubelet/"+deed.Name, "runtime/"+deed.Name
		return func() {
				c.takeDown(kubelet)
				c.Crash(oldKubeletOf(deed.Name))
				c.takeDown(runtime)
				c.kernels[deed.Name].Reboot()
			}, func() {
				c.bringUp(runtime)
				c.bringUp(kubelet)
			}, history.TroubleFault
	case Pause:
		return func() { c.Pause(deed.Name) }, func() { c.Resume(deed.Name) }, history.TroublePaused
	case SlowDisk:
		return func() { c.drive.Slow += deed.For }, func() { c.drive.Slow -= deed.For }, history.TroubleFault
	case FailDisk:
		return func() { c.drive.Fails = true }, func() {
			c.drive.Fails = false
			if c.exited {
				c.exited = false
				c.bringUp(APIServer)
			}
		}, history.TroubleFault
	case WebhookFails: // the webhook knows by itself
		return func() {}, func() {}, history.TroubleFault
	case CreatePod, DeletePod, ForceDelete, AddFinalizer, RemoveFinalizer, CreateReplicas, CreateStateful, ScaleReplicas,
		ScaleStateful, DeleteReplicas, DeleteStateful, CreateNamespace, DeleteNamespace, OutOfService, BackInService, DeleteNode, Compact, FaultAtPoint, SecondKubelet, SkewClock,
		CreateDaemons, DeleteDaemons, CreateJob, DeleteJob, SuspendJob, ResumeJob, DeletePodOf, CreateBudget, ChangeBudget, DeleteBudget, EvictPodOf,
		Unlabel, Relabel, DeleteReadyAhead, CreateVolume, CreateClaim, CreateWebhook, DeleteWebhook, WebhookDenies,
		CreateDeployment, DeleteDeployment, ScaleDeployment, RollOut, RollBack, PauseRollout, ResumeRollout,
		CreateCronJob, DeleteCronJob, SuspendCronJob, ResumeCronJob:
	}
	panic("sim: nothing breaks by " + string(deed.Kind)) // a mistake in the simulator
}

// ErrUneventful is a run with too few events to prove anything.
var ErrUneventful = errors.New("too little has happened in this life")

// Judge checks every guarantee that the run's history can show. The error is a wrong final state,
// or the first violated guarantee.
func Judge(lived Result) ([]guarantees.Result, error) {
	results, err := guarantees.Check(guarantees.Evidence{Log: lived.Log, Store: lived.Store})
	if err = cmp.Or(lived.Err, err); err != nil {
		return results, err
	}
	for _, result := range results {
		if err := result.Err(); err != nil {
			return results, err
		}
	}
	return results, checkRequests(lived.Log.Events)
}
