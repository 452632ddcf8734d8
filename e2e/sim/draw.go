package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// dice are what one part of a script is drawn with: what one part draws shifts nothing in
// another.
type dice struct{ state uint64 }

func diceOf(seed uint64, part string, n int) *dice { return &dice{mix(seed, part, uint64(n))} }

func (d *dice) below(n int) int {
	d.state = next(d.state)
	return int(d.state % uint64(n))
}

func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.below(int((high-low)/time.Millisecond)+1))*time.Millisecond
}

func (d *dice) one(in int) bool { return d.below(in) == 0 }

func pick[T any](d *dice, from ...T) T { return from[d.below(len(from))] }

// Mode is how a life ends.
type Mode int

// The modes.
const (
	// Safety has faults to the end: only that nothing bad happens is checked.
	Safety Mode = iota
	// Liveness ends all trouble after three quarters of the time: then everything must
	// become calm and right.
	Liveness
)

// Draw is the life of a seed.
func Draw(seed uint64, mode Mode, lasts time.Duration) Script {
	s := Script{Seed: seed, Nodes: pick(diceOf(seed, "nodes", 0), 1, 2, 3, 3), Lasts: lasts}
	until := lasts
	if mode == Liveness {
		s.Calm = lasts * 3 / 4
		until = s.Calm
	}
	d := diceOf(seed, "life", 0)
	s.Trouble = Trouble{Lost: pick[uint64](d, 0, 2_000, 20_000), Twice: pick[uint64](d, 0, 2_000, 20_000), Late: pick[uint64](d, 0, 2_000, 20_000)}
	s.Deeds = append(s.Deeds, sets(seed)...)
	for n := 0; ; n++ {
		deed := userDeed(diceOf(seed, "user", n))
		deed.At = 20*time.Second + time.Duration(n)*meanPause + diceOf(seed, "user pause", n).between(0, meanPause)
		if deed.At >= until-time.Minute {
			break
		}
		s.Deeds = append(append(s.Deeds, deed), haste(diceOf(seed, "haste", n), deed)...)
	}
	if !d.one(10) { // every tenth life has no faults
		broken := faults(seed, s.NodeNames(), until)
		s.Deeds = append(append(s.Deeds, broken...), overtaken(seed, broken)...)
	}
	s.Deeds = append(s.Deeds, compactions(seed, s.Deeds, until)...)
	if mode == Liveness {
		s.Deeds = append(s.Deeds, amends(s.Deeds, s.Calm)...)
	}
	dress(&s, until)
	s.Deeds = append(s.Deeds, moreSets(seed, until)...)
	s.Deeds = append(s.Deeds, cascades(seed, until, s.Deeds)...)
	s.Deeds = append(s.Deeds, shops(seed, until, mode)...)
	s.Deeds = append(s.Deeds, hookDeeds(seed, until, s.Deeds)...)
	s.Deeds = append(s.Deeds, claimDeeds(seed, until, mode)...)
	diskDeeds(&s, until, mode)
	s.Deeds = append(s.Deeds, cronJobDeeds(seed, until, s.Deeds)...)
	s.Deeds = append(s.Deeds, deploymentDeeds(seed, until, mode, s.Deeds)...)
	s.Deeds = append(s.Deeds, clockDeeds(seed, s.NodeNames(), until, s.Deeds)...)
	if mode == Liveness {
		s.Deeds = append(s.Deeds, clockAmends(until, s.Deeds)...)
	}
	s.sort()
	return s
}

const meanPause = 35 * time.Second

// The names that users have for their pods and sets.
func podNames() []string { return []string{"ant", "bee", "cat", "dog"} }

const (
	replicaName  = "web"
	statefulName = "db"
)

// sets are made at the beginning.
func sets(seed uint64) []Deed {
	d := diceOf(seed, "sets", 0)
	return []Deed{
		{At: 8 * time.Second, Do: CreateReplicas, Name: replicaName, Count: int32(1 + d.below(3)), Grace: grace(d), App: app(d)},
		{At: 9 * time.Second, Do: CreateStateful, Name: statefulName, Count: int32(1 + d.below(3)), Grace: grace(d), App: app(d)},
	}
}

func grace(d *dice) *int64 { return new(pick[int64](d, 0, 1, 2, 5, 10, 30, 60)) }

func app(d *dice) App {
	return App{
		IgnoresTerm: d.one(6), Stops: pick(d, 0, 100*time.Millisecond, time.Second, 4*time.Second, 20*time.Second),
		Code: pick[int32](d, 0, 0, 1, 143),
	}
}

// userDeed is one thing that a user does.
func userDeed(d *dice) Deed {
	pod := pick(d, podNames()...)
	set := fmt.Sprintf("%s-%d", statefulName, d.below(3))
	switch roll := d.below(100); {
	case roll < 40:
		deed := Deed{Do: CreatePod, Name: pod, Grace: grace(d), App: app(d), Finalizer: d.one(8)}
		if d.one(5) {
			deed.PreStop = pick(d, time.Second, 3*time.Second, 15*time.Second)
		}
		if d.one(4) {
			deed.App.Runs = d.between(time.Second, 2*time.Minute)
		}
		return deed
	case roll < 62:
		return Deed{Do: DeletePod, Name: pick(d, pod, pod, pod, set), Grace: pick(d, nil, nil, grace(d))}
	case roll < 70:
		return Deed{Do: ForceDelete, Name: pick(d, pod, pod, set)}
	case roll < 76:
		return Deed{Do: AddFinalizer, Name: pod}
	case roll < 84:
		return Deed{Do: RemoveFinalizer, Name: pod}
	case roll < 90:
		return Deed{Do: ScaleReplicas, Name: replicaName, Count: int32(d.below(5))}
	case roll < 96:
		return Deed{Do: ScaleStateful, Name: statefulName, Count: int32(d.below(4))}
	}
	return Deed{Do: pick(d, OutOfService, BackInService, DeleteNode), Name: fmt.Sprintf("node-%d", 1+d.below(3))}
}

// haste is what a user does who cannot wait for what the deed does: deletes once more, with
// another grace period or by force, and makes the pod again under its name; or does so while
// the pod is being started, or deletes what another user has just begun to hold.
func haste(d *dice, deed Deed) []Deed {
	switch {
	case deed.Do == CreatePod && d.one(6): // while it is being started, and told of
		at := deed.At + d.between(200*time.Millisecond, 4*time.Second)
		again := Deed{At: at + d.between(0, 100*time.Millisecond), Do: CreatePod, Name: deed.Name, Grace: grace(d), App: app(d)}
		return []Deed{{At: at, Do: ForceDelete, Name: deed.Name}, again}
	case deed.Do == AddFinalizer && !d.one(3):
		return []Deed{{At: deed.At + d.between(0, 3*time.Second), Do: pick(d, DeletePod, ForceDelete), Name: deed.Name}}
	case deed.Do != DeletePod && deed.Do != ForceDelete || d.one(3):
		return nil
	}
	var all []Deed
	at := deed.At
	for range 1 + d.below(3) {
		at += pick(d, d.between(0, 500*time.Millisecond), d.between(0, 6*time.Second))
		again := Deed{At: at, Do: DeletePod, Name: deed.Name, Grace: grace(d)}
		switch d.below(4) {
		case 0:
			again.Do, again.Grace = ForceDelete, nil
		case 1, 2:
			if strings.HasPrefix(deed.Name, statefulName+"-") {
				continue // its set makes it
			}
			again.Do, again.App = CreatePod, app(d)
		}
		all = append(all, again)
	}
	return all
}

// faults are what breaks.
func faults(seed uint64, nodes []string, until time.Duration) []Deed {
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "fault", n)
		deed := Deed{At: 30*time.Second + time.Duration(n)*faultPause + d.between(0, faultPause)}
		node := pick(d, nodes...)
		switch roll := d.below(100); {
		case roll < 30:
			deed.Do, deed.Name, deed.Ways = CutNode, node, pick(d, "", "", "in", "out")
			deed.For = pick(d, d.between(time.Second, 30*time.Second), d.between(30*time.Second, 2*time.Minute), d.between(6*time.Minute, 8*time.Minute))
		case roll < 62:
			deed.Do, deed.Name = Crash, pick(d, APIServer, Controllers, "kubelet/"+node, "kubelet/"+node, "runtime/"+node)
			deed.For = pick(d, d.between(50*time.Millisecond, 2*time.Second), d.between(2*time.Second, 40*time.Second))
		case roll < 67:
			deed.Do, deed.Name, deed.For = Reboot, node, d.between(5*time.Second, 90*time.Second)
		case roll < 85:
			deed.Do, deed.Name = Pause, pick(d, APIServer, Controllers, "kubelet/"+node, "kubelet/"+node, "runtime/"+node)
			deed.For = d.between(time.Second, 45*time.Second)
		case roll < 94:
			deed.Do, deed.Name, deed.For = SlowDisk, APIServer, d.between(50*time.Millisecond, 400*time.Millisecond)
		default:
			deed.Do, deed.Name, deed.For = DiskFail, APIServer, d.between(500*time.Millisecond, 5*time.Second)
		}
		if deed.At+deed.For >= until {
			break
		}
		all = append(all, deed)
	}
	return all
}

const faultPause = 90 * time.Second

// overtaken are pods whose kubelet cannot say what becomes of them while it is cut off for a
// while, and whose names have new ones when it can.
func overtaken(seed uint64, faults []Deed) []Deed {
	var all []Deed
	for i, cut := range faults {
		if cut.Do != CutNode || cut.For > defaultLimit {
			continue
		}
		d := diceOf(seed, "overtaken", i)
		pod := pick(d, podNames()...)
		forced := cut.At + d.between(0, cut.For)
		all = append(all,
			Deed{At: cut.At - d.between(5*time.Second, 15*time.Second), Do: CreatePod, Name: pod, Grace: grace(d), App: app(d)},
			Deed{At: cut.At - d.between(0, 2*time.Second), Do: DeletePod, Name: pod},
			Deed{At: forced, Do: ForceDelete, Name: pod},
			Deed{At: forced + d.between(0, time.Second), Do: CreatePod, Name: pod, Grace: grace(d), App: app(d)},
		)
	}
	return all
}

// compactions forget nearly all of the history, at times that are drawn and right after
// removals. An operation of which the apiserver has forgotten what it did is not sent again
// after the apiserver has lost its memory: that promise has the history's bound.
func compactions(seed uint64, deeds []Deed, until time.Duration) []Deed {
	var all []Deed
	add := func(at time.Duration, keep int) {
		if at < until-time.Minute && !slices.ContainsFunc(deeds, func(fault Deed) bool {
			return fault.Name == APIServer && (fault.Do == Crash || fault.Do == DiskFail) &&
				at > fault.At-2*defaultLimit && at < fault.At+fault.For+2*defaultLimit
		}) {
			all = append(all, Deed{At: at, Do: Compact, Count: int32(keep)})
		}
	}
	for at := time.Minute; at < until; at += compactPause {
		d := diceOf(seed, "compaction", int(at/time.Minute))
		add(at+d.between(0, compactPause), d.below(4))
	}
	for i, deed := range deeds {
		if deed.Do == ForceDelete && diceOf(seed, "compaction of a removal", i).one(2) {
			add(deed.At+justAfter, 2) // the removal and what comes next
		}
	}
	return all
}

// justAfter is when a request has been carried out.
const justAfter = 2 * mostDelay

const compactPause = 5 * time.Minute

// amendsBefore is how long before the calm the first amends are made.
const amendsBefore = 2 * time.Second

// amends take back what users have left behind that would keep a cluster from being calm.
func amends(deeds []Deed, at time.Duration) []Deed {
	var all []Deed
	for _, pod := range podNames() {
		all = append(all, Deed{At: at, Do: RemoveFinalizer, Name: pod})
	}
	nodes := map[string]bool{}
	for _, deed := range deeds {
		if deed.Do == OutOfService && !nodes[deed.Name] {
			nodes[deed.Name] = true
			all = append(all, Deed{At: at, Do: BackInService, Name: deed.Name})
		}
		if deed.Do == DeleteNode { // its kubelet registers it when it begins again
			all = append(all, Deed{At: at - amendsBefore, Do: Crash, Name: "kubelet/" + deed.Name, For: time.Second})
		}
	}
	return all
}
