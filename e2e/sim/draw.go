package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// dice draw one part of a script. Each part has its own dice, so a change of one part leaves the
// others as they are.
type dice struct{ state uint64 }

func newDice(seed uint64, part string, n int) *dice { return &dice{mix(seed, part, uint64(n))} }

func (d *dice) below(n int) int {
	d.state = nextRandom(d.state)
	return int(d.state % uint64(n))
}

func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.below(int((high-low)/time.Millisecond)+1))*time.Millisecond
}

func (d *dice) oneIn(in int) bool { return d.below(in) == 0 }

func pick[T any](d *dice, from ...T) T { return from[d.below(len(from))] }

// Mode is how a run ends.
type Mode int

// The modes.
const (
	// Safety has faults to the end: only safety invariants are checked.
	Safety Mode = iota
	// Liveness ends all faults after three quarters of the time. Then the cluster must converge.
	Liveness
)

// Draw draws the script of a seed.
func Draw(seed uint64, mode Mode, lasts time.Duration) Script {
	s := Script{Seed: seed, Nodes: pick(newDice(seed, "nodes", 0), 1, 2, 3, 3), Duration: lasts}
	until := lasts
	if mode == Liveness {
		s.FaultsEnd = lasts * 3 / 4
		until = s.FaultsEnd
	}
	d := newDice(seed, "life", 0)
	s.NetFaults = FaultRates{Lost: pick[uint64](d, 0, 2_000, 20_000), Twice: pick[uint64](d, 0, 2_000, 20_000), Late: pick[uint64](d, 0, 2_000, 20_000)}
	s.Actions = append(s.Actions, drawSets(seed)...)
	for n := 0; ; n++ {
		action := drawUserAction(newDice(seed, "user", n))
		action.At = 20*time.Second + time.Duration(n)*meanActionPause + newDice(seed, "user pause", n).between(0, meanActionPause)
		if action.At >= until-time.Minute {
			break
		}
		s.Actions = append(append(s.Actions, action), drawFollowUps(newDice(seed, "haste", n), action)...)
	}
	if !d.oneIn(10) { // every tenth run has no faults
		broken := drawFaults(seed, s.NodeNames(), until)
		s.Actions = append(append(s.Actions, broken...), drawReplacedPods(seed, broken)...)
	}
	s.Actions = append(s.Actions, drawCompactions(seed, s.Actions, until)...)
	if mode == Liveness {
		s.Actions = append(s.Actions, drawCleanup(s.Actions, s.FaultsEnd)...)
	}
	drawShapes(&s, until)
	s.Actions = append(s.Actions, drawOtherSets(seed, until)...)
	s.Actions = append(s.Actions, drawCascades(seed, until, s.Actions)...)
	s.Actions = append(s.Actions, drawShops(seed, until, mode)...)
	s.Actions = append(s.Actions, drawWebhookActions(seed, until, s.Actions)...)
	s.Actions = append(s.Actions, drawClaimChanges(seed, until, mode)...)
	addDisks(&s, until, mode)
	s.Actions = append(s.Actions, drawCronJobActions(seed, until, s.Actions)...)
	s.Actions = append(s.Actions, drawDeploymentActions(seed, until, mode, s.Actions)...)
	s.Actions = append(s.Actions, drawClockFaults(seed, s.NodeNames(), until, s.Actions)...)
	if mode == Liveness {
		s.Actions = append(s.Actions, drawReadyAheadDeletes(until, s.Actions)...)
	}
	s.sort()
	return s
}

const meanActionPause = 35 * time.Second

// podNames returns the names that users give their pods and sets.
func podNames() []string { return []string{"ant", "bee", "cat", "dog"} }

const (
	replicaName  = "web"
	statefulName = "db"
)

// drawSets creates the sets at the beginning.
func drawSets(seed uint64) []Action {
	d := newDice(seed, "sets", 0)
	return []Action{
		{At: 8 * time.Second, Kind: CreateReplicas, Name: replicaName, Count: int32(1 + d.below(3)), Grace: drawGrace(d), App: drawApp(d)},
		{At: 9 * time.Second, Kind: CreateStateful, Name: statefulName, Count: int32(1 + d.below(3)), Grace: drawGrace(d), App: drawApp(d)},
	}
}

func drawGrace(d *dice) *int64 { return new(pick[int64](d, 0, 1, 2, 5, 10, 30, 60)) }

func drawApp(d *dice) App {
	return App{
		IgnoresTerm: d.oneIn(6), Stops: pick(d, 0, 100*time.Millisecond, time.Second, 4*time.Second, 20*time.Second),
		Code: pick[int32](d, 0, 0, 1, 143),
	}
}

// drawUserAction draws one user action.
func drawUserAction(d *dice) Action {
	pod := pick(d, podNames()...)
	set := fmt.Sprintf("%s-%d", statefulName, d.below(3))
	switch roll := d.below(100); {
	case roll < 40:
		action := Action{Kind: CreatePod, Name: pod, Grace: drawGrace(d), App: drawApp(d), Finalizer: d.oneIn(8)}
		if d.oneIn(5) {
			action.PreStop = pick(d, time.Second, 3*time.Second, 15*time.Second)
		}
		if d.oneIn(4) {
			action.App.Runs = d.between(time.Second, 2*time.Minute)
		}
		return action
	case roll < 62:
		return Action{Kind: DeletePod, Name: pick(d, pod, pod, pod, set), Grace: pick(d, nil, nil, drawGrace(d))}
	case roll < 70:
		return Action{Kind: ForceDelete, Name: pick(d, pod, pod, set)}
	case roll < 76:
		return Action{Kind: AddFinalizer, Name: pod}
	case roll < 84:
		return Action{Kind: RemoveFinalizer, Name: pod}
	case roll < 90:
		return Action{Kind: ScaleReplicas, Name: replicaName, Count: int32(d.below(5))}
	case roll < 96:
		return Action{Kind: ScaleStateful, Name: statefulName, Count: int32(d.below(4))}
	}
	return Action{Kind: pick(d, OutOfService, BackInService, DeleteNode), Name: fmt.Sprintf("node-%d", 1+d.below(3))}
}

// drawFollowUps draws impatient follow-ups of a user action: deleting again with another grace
// period or by force, then creating the pod again with the same name; deleting during startup; or
// deleting what another user has just given a finalizer.
func drawFollowUps(d *dice, action Action) []Action {
	switch {
	case action.Kind == CreatePod && d.oneIn(6): // while it is being started, and told of
		at := action.At + d.between(200*time.Millisecond, 4*time.Second)
		again := Action{At: at + d.between(0, 100*time.Millisecond), Kind: CreatePod, Name: action.Name, Grace: drawGrace(d), App: drawApp(d)}
		return []Action{{At: at, Kind: ForceDelete, Name: action.Name}, again}
	case action.Kind == AddFinalizer && !d.oneIn(3):
		return []Action{{At: action.At + d.between(0, 3*time.Second), Kind: pick(d, DeletePod, ForceDelete), Name: action.Name}}
	case action.Kind != DeletePod && action.Kind != ForceDelete || d.oneIn(3):
		return nil
	}
	var all []Action
	at := action.At
	for range 1 + d.below(3) {
		at += pick(d, d.between(0, 500*time.Millisecond), d.between(0, 6*time.Second))
		again := Action{At: at, Kind: DeletePod, Name: action.Name, Grace: drawGrace(d)}
		switch d.below(4) {
		case 0:
			again.Kind, again.Grace = ForceDelete, nil
		case 1, 2:
			if strings.HasPrefix(action.Name, statefulName+"-") {
				continue // its set makes it
			}
			again.Kind, again.App = CreatePod, drawApp(d)
		}
		all = append(all, again)
	}
	return all
}

// drawFaults draws the faults.
func drawFaults(seed uint64, nodes []string, until time.Duration) []Action {
	var all []Action
	for n := 0; ; n++ {
		d := newDice(seed, "fault", n)
		action := Action{At: 30*time.Second + time.Duration(n)*faultPause + d.between(0, faultPause)}
		node := pick(d, nodes...)
		switch roll := d.below(100); {
		case roll < 30:
			action.Kind, action.Name, action.Detail = CutNode, node, pick(d, "", "", "in", "out")
			action.For = pick(d, d.between(time.Second, 30*time.Second), d.between(30*time.Second, 2*time.Minute), d.between(6*time.Minute, 8*time.Minute))
		case roll < 62:
			action.Kind, action.Name = Crash, pick(d, APIServer, Controllers, "kubelet/"+node, "kubelet/"+node, "runtime/"+node)
			action.For = pick(d, d.between(50*time.Millisecond, 2*time.Second), d.between(2*time.Second, 40*time.Second))
		case roll < 67:
			action.Kind, action.Name, action.For = Reboot, node, d.between(5*time.Second, 90*time.Second)
		case roll < 85:
			action.Kind, action.Name = Pause, pick(d, APIServer, Controllers, "kubelet/"+node, "kubelet/"+node, "runtime/"+node)
			action.For = d.between(time.Second, 45*time.Second)
		case roll < 94:
			action.Kind, action.Name, action.For = SlowDisk, APIServer, d.between(50*time.Millisecond, 400*time.Millisecond)
		default:
			action.Kind, action.Name, action.For = FailDisk, APIServer, d.between(500*time.Millisecond, 5*time.Second)
		}
		if action.At+action.For >= until {
			break
		}
		all = append(all, action)
	}
	return all
}

// faultPause is the mean time between two faults.
const faultPause = 90 * time.Second

// drawReplacedPods draws pods whose kubelet is cut off and cannot report, and whose names have new
// pods when the cut ends.
func drawReplacedPods(seed uint64, faults []Action) []Action {
	var all []Action
	for i, cut := range faults {
		if cut.Kind != CutNode || cut.For > defaultLimit {
			continue
		}
		d := newDice(seed, "overtaken", i)
		pod := pick(d, podNames()...)
		forced := cut.At + d.between(0, cut.For)
		all = append(all,
			Action{At: cut.At - d.between(5*time.Second, 15*time.Second), Kind: CreatePod, Name: pod, Grace: drawGrace(d), App: drawApp(d)},
			Action{At: cut.At - d.between(0, 2*time.Second), Kind: DeletePod, Name: pod},
			Action{At: forced, Kind: ForceDelete, Name: pod},
			Action{At: forced + d.between(0, time.Second), Kind: CreatePod, Name: pod, Grace: drawGrace(d), App: drawApp(d)},
		)
	}
	return all
}

// drawCompactions forgets nearly all of the history, at drawn times and right after removals. An
// operation whose result the apiserver has forgotten is not sent again after the apiserver has
// restarted: that guarantee is bounded by the history.
func drawCompactions(seed uint64, actions []Action, until time.Duration) []Action {
	var all []Action
	add := func(at time.Duration, keep int) {
		if at < until-time.Minute && !slices.ContainsFunc(actions, func(fault Action) bool {
			return fault.Name == APIServer && (fault.Kind == Crash || fault.Kind == FailDisk) &&
				at > fault.At-2*defaultLimit && at < fault.At+fault.For+2*defaultLimit
		}) {
			all = append(all, Action{At: at, Kind: Compact, Count: int32(keep)})
		}
	}
	for at := time.Minute; at < until; at += compactPause {
		d := newDice(seed, "compaction", int(at/time.Minute))
		add(at+d.between(0, compactPause), d.below(4))
	}
	for i, action := range actions {
		if action.Kind == ForceDelete && newDice(seed, "compaction of a removal", i).oneIn(2) {
			add(action.At+justAfter, 2) // the removal and what comes next
		}
	}
	return all
}

// justAfter is when a request has been carried out.
const justAfter = 2 * mostDelay

// compactPause is the mean time between two compactions.
const compactPause = 5 * time.Minute

// cleanupBefore is how long before the end of faults the first cleanup is.
const cleanupBefore = 2 * time.Second

// drawCleanup undoes what users left behind that would keep a cluster from converging.
func drawCleanup(actions []Action, at time.Duration) []Action {
	var all []Action
	for _, pod := range podNames() {
		all = append(all, Action{At: at, Kind: RemoveFinalizer, Name: pod})
	}
	nodes := map[string]bool{}
	for _, action := range actions {
		if action.Kind == OutOfService && !nodes[action.Name] {
			nodes[action.Name] = true
			all = append(all, Action{At: at, Kind: BackInService, Name: action.Name})
		}
		if action.Kind == DeleteNode { // its kubelet registers it when it begins again
			all = append(all, Action{At: at - cleanupBefore, Kind: Crash, Name: "kubelet/" + action.Name, For: time.Second})
		}
	}
	return all
}
