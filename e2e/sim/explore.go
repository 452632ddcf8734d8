package sim

import (
	"fmt"
	"slices"
	"time"
)

// Explorer plays one story in every order in which its messages can arrive, with every
// choice of at most Faults lost, doubled and late messages and crashes. It keeps no copies
// of processes: a run is a list of choices, and is played again from its beginning, which
// the real cores allow. Two lives that have come to the same state, for all that anyone can
// still see, are one from there on.
//
// Two orders of one instant after which every process has said the same are taken for one:
// what a process is follows from what it was given, and what it hides until later from what
// it says that it holds. A message is lost, doubled or late when it could first arrive, which
// is the same as at any later moment before it does.
//
// What it assumes: messages are faster than timers, so that time passes only when nothing
// is under way but what a fault has made late; on one machine nothing is lost or overtaken.
type Explorer struct {
	// Bubble calls its argument in a testing/synctest bubble of its own.
	Bubble func(play func())
	// Build makes the world of a run with all its processes.
	Build func() *World
	// Duration is the simulated time of each run.
	Duration time.Duration
	// Faults is the maximum number of faults in a run, and Runs the maximum number of runs; 0 means
	// all.
	Faults, Runs int
	// Check returns the violation of a run, if any.
	Check func(w *World) error
}

// ExploreResult is the result of an exploration.
type ExploreResult struct {
	// Runs counts the runs, and Ended those that ran to the end. The others reached a known state.
	Runs, Ended int
	// States counts the different states, and Depth is the maximum number of choices in a run.
	States, Depth int
	// Complete means that nothing is left to run.
	Complete bool
	// Violation is the first violation, nil for none. Story shows how it happens, and Faults with
	// how many faults: with fewer there is none.
	Violation error
	Story     []string
	Faults    int
}

// Explore runs the story until there is a violation: first without faults, then with one, and so
// on. Among runs with equally many faults, those closest to the default come first. So the first
// violation has the fewest faults and the shortest story.
func (x *Explorer) Explore() ExploreResult {
	found := ExploreResult{}
	known := map[digest]bool{}
	waiting := make([][][]int, x.Faults+1) // by the number of faults
	waiting[0] = [][]int{nil}
	for faults := range waiting {
		for len(waiting[faults]) > 0 {
			if x.Runs > 0 && found.Runs == x.Runs {
				found.States = len(known)
				return found
			}
			next := waiting[faults][0]
			waiting[faults] = waiting[faults][1:]
			life := x.run(next, known)
			found.add(life)
			for _, branch := range life.branches {
				waiting[branch.faults] = append(waiting[branch.faults], branch.choices)
			}
			if found.Violation != nil {
				found.States = len(known)
				return found
			}
		}
	}
	found.States, found.Complete = len(known), true
	return found
}

// add counts a run.
func (f *ExploreResult) add(l *exploredRun) {
	f.Runs++
	f.Depth = max(f.Depth, l.depth)
	if l.cut {
		return
	}
	f.Ended++
	if l.violation != nil {
		f.Violation, f.Story, f.Faults = l.violation, l.story, l.faults
	}
}

// exploredRun is one run.
type exploredRun struct {
	// story lists the choices that are not the default.
	story     []string
	depth     int
	faults    int
	cut       bool
	violation error
	branches  []branch
}

// branch is a run that is still to be played.
type branch struct {
	choices []int
	faults  int
}

// run takes the given choices, and the default after them. It notes the alternatives.
func (x *Explorer) run(choices []int, known map[digest]bool) *exploredRun {
	life := &exploredRun{}
	x.Bubble(func() {
		world := x.Build()
		defer world.End()
		s := newChooser(world, x.Faults)
		made := []int{}
		for s.world.Now() < x.Duration && s.advance(x.Duration) {
			options := s.options()
			if len(options) == 1 {
				s.apply(options[0])
				continue
			}
			choice := 0
			if life.depth < len(choices) {
				choice = choices[life.depth]
			} else {
				state := s.digest()
				if known[state] {
					life.cut = true
					return
				}
				known[state] = true
				life.addBranches(made, options, s.faults)
			}
			life.depth++
			made = append(made, choice)
			if choice > 0 {
				life.story = append(life.story, fmt.Sprintf("%7.3f s: %s", s.world.Now().Seconds(), options[choice]))
			}
			s.apply(options[choice])
		}
		life.faults = s.faults
		life.violation = x.Check(s.world)
	})
	return life
}

// addBranches adds the other options as branches.
func (l *exploredRun) addBranches(made []int, options []option, faults int) {
	for other := 1; other < len(options); other++ {
		cost := 0
		if options[other].kind != deliverMessage {
			cost = 1
		}
		l.branches = append(l.branches, branch{append(slices.Clone(made), other), faults + cost})
	}
}
