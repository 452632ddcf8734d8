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
	for i, action := range c.script.Actions {
		if action.Kind == Compact {
			c.At(action.At, func() { c.drive.Compact = new(int(action.Count)) })
		}
		if !action.Kind.isFault() || action.Kind == FaultAtPoint || action.Kind == SecondKubelet || action.Kind == SkewClock {
			continue
		}
		begin, end, kind := c.faultOf(action)
		told := history.Trouble{Kind: kind, What: fmt.Sprintf("%s %s #%d", action.Kind, action.Name, i)}
		if kind == history.TroublePaused {
			told.What = action.Name
		}
		if action.Kind == CutNode {
			told.CutOff = []string{action.Name}
		}
		if action.Detail != "" { // to those who read this, a cut is one of both ways
			told.Kind, told.CutOff = history.TroubleFault, nil
		}
		if kind == history.TroubleDown { // take and give tell
			c.At(action.At, begin)
			c.At(action.At+action.For, end)
			continue
		}
		c.At(action.At, func() {
			c.Note(nemesis, history.FaultBegin{Trouble: told})
			begin()
		})
		c.At(action.At+c.faultDuration(action), func() {
			end()
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// nemesis is the process name under which faults are recorded.
const nemesis = "nemesis"

// slowFor is how long a disk stays slow.
const slowFor = 30 * time.Second

func (c *cluster) faultDuration(action Action) time.Duration {
	if action.Kind == SlowDisk {
		return slowFor
	}
	return action.For
}

// faultOf returns how to begin and end a fault.
func (c *cluster) faultOf(action Action) (begin, end func(), kind history.TroubleKind) {
	switch action.Kind {
	case CutNode:
		kubelet := "kubelet/" + action.Name
		var links []Link
		if action.Detail != "out" {
			links = append(links, Link{APIServer, kubelet}, Link{APIServer, oldKubeletOf(action.Name)})
		}
		if action.Detail != "in" {
			links = append(links, Link{kubelet, APIServer}, Link{oldKubeletOf(action.Name), APIServer})
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
		return func() { c.takeDown(action.Name) }, func() { c.bringUp(action.Name) }, history.TroubleDown
	case Reboot:
		kubelet, runtime := "kubelet/"+action.Name, "runtime/"+action.Name
		return func() {
				c.takeDown(kubelet)
				c.Crash(oldKubeletOf(action.Name))
				c.takeDown(runtime)
				c.kernels[action.Name].Reboot()
			}, func() {
				c.bringUp(runtime)
				c.bringUp(kubelet)
			}, history.TroubleFault
	case Pause:
		return func() { c.Pause(action.Name) }, func() { c.Resume(action.Name) }, history.TroublePaused
	case SlowDisk:
		return func() { c.drive.Slow += action.For }, func() { c.drive.Slow -= action.For }, history.TroubleFault
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
	panic("sim: nothing breaks by " + string(action.Kind)) // a mistake in the simulator
}

// ErrUneventful is a run with too few events to prove anything.
var ErrUneventful = errors.New("too little has happened in this run")

// Judge checks every guarantee that the run's history can show. The error is a wrong final state,
// or the first violated guarantee.
func Judge(result Result) ([]guarantees.Result, error) {
	results, err := guarantees.Check(guarantees.Evidence{Log: result.Log, Store: result.Store})
	if err = cmp.Or(result.Err, err); err != nil {
		return results, err
	}
	for _, result := range results {
		if err := result.Err(); err != nil {
			return results, err
		}
	}
	return results, checkRequests(result.Log.Events)
}
