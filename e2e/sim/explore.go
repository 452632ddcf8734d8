package sim

import (
	"fmt"
	"slices"
	"time"
)

// Explorer plays one story in every order in which its messages can arrive, with every
// choice of at most Faults lost, doubled and late messages and crashes. It keeps no copies
// of processes: a life is a list of choices, and is played again from its beginning, which
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
	// Build makes the world of a life, with everything in it.
	Build func() *World
	// Lasts is how long each life lasts.
	Lasts time.Duration
	// Faults is how many there are in a life at most, and Lives how many lives are played
	// at most; 0 means all.
	Faults, Lives int
	// Check is the error of a life that has broken something.
	Check func(w *World) error
}

// Explored is what was found.
type Explored struct {
	// Lives is how many were played, Ended how many of them to their end: the others came
	// to a state that was known.
	Lives, Ended int
	// States is how many different states were met, and Depth the most choices in a life.
	States, Depth int
	// Whole says that nothing is left to be played.
	Whole bool
	// Broken is the first thing that was broken, nil for nothing; Story is how, and Faults
	// with how many faults: with fewer nothing is.
	Broken error
	Story  []string
	Faults int
}

// Explore plays the story until something is broken: first without faults, then with one,
// and so on, and of those the lives that differ least from the default come first. So the
// first life that breaks something has the fewest faults, and the shortest story.
func (x *Explorer) Explore() Explored {
	found := Explored{}
	known := map[digest]bool{}
	waiting := make([][][]int, x.Faults+1) // by the number of faults
	waiting[0] = [][]int{nil}
	for faults := range waiting {
		for len(waiting[faults]) > 0 {
			if x.Lives > 0 && found.Lives == x.Lives {
				found.States = len(known)
				return found
			}
			next := waiting[faults][0]
			waiting[faults] = waiting[faults][1:]
			life := x.play(next, known)
			found.take(life)
			for _, branch := range life.branches {
				waiting[branch.faults] = append(waiting[branch.faults], branch.choices)
			}
			if found.Broken != nil {
				found.States = len(known)
				return found
			}
		}
	}
	found.States, found.Whole = len(known), true
	return found
}

// take counts a life.
func (f *Explored) take(l *played) {
	f.Lives++
	f.Depth = max(f.Depth, l.depth)
	if l.cut {
		return
	}
	f.Ended++
	if l.broken != nil {
		f.Broken, f.Story, f.Faults = l.broken, l.told, l.faults
	}
}

// played is one life.
type played struct {
	// told is what was chosen that is not the default.
	told     []string
	depth    int
	faults   int
	cut      bool
	broken   error
	branches []branch
}

// branch is a life that has still to be played.
type branch struct {
	choices []int
	faults  int
}

// play plays a life: the choices that are given, and the default ever after. It notes what
// else could have been chosen there.
func (x *Explorer) play(choices []int, known map[digest]bool) *played {
	life := &played{}
	x.Bubble(func() {
		world := x.Build()
		defer world.End()
		s := newChooser(world, x.Faults)
		made := []int{}
		for s.world.Now() < x.Lasts && s.settle(x.Lasts) {
			options := s.options()
			if len(options) == 1 {
				s.take(options[0])
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
				life.branch(made, options, s.faults)
			}
			life.depth++
			made = append(made, choice)
			if choice > 0 {
				life.told = append(life.told, fmt.Sprintf("%7.3f s: %s", s.world.Now().Seconds(), options[choice]))
			}
			s.take(options[choice])
		}
		life.faults = s.faults
		life.broken = x.Check(s.world)
	})
	return life
}

// branch notes the other options.
func (l *played) branch(made []int, options []option, faults int) {
	for other := 1; other < len(options); other++ {
		cost := 0
		if options[other].do != deliver {
			cost = 1
		}
		l.branches = append(l.branches, branch{append(slices.Clone(made), other), faults + cost})
	}
}
