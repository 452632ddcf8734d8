package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
)

// Broke names what a life has broken: the property's id, how its end is wrong, or "run";
// empty for nothing.
func Broke(err error) string {
	var broken *guarantees.ViolationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &broken):
		return broken.ID
	}
	for _, end := range []struct {
		is   error
		name string
	}{
		{ErrStuck, "stuck"},
		{ErrReplicas, "replicas"},
		{ErrRollouts, "rollouts"},
		{ErrJobs, "jobs"},
		{ErrCronJobs, "cronjobs"},
		{ErrOrphans, "orphans"},
		{ErrRestless, "restless"},
		{ErrLeft, "left"},
		{ErrNowhere, "nowhere"},
		{ErrHeld, "held"},
		{ErrDisks, "disks"},
		{ErrImproper, "improper"},
	} {
		if errors.Is(err, end.is) {
			return end.name
		}
	}
	return "run"
}

// Shrink makes the script of a life that has broken something as small as it can, in at
// most so many lives: it is written down, and then goes whatever is not needed, first the
// end, then decisions, then values. live plays a script and judges it.
//
// The result breaks the same as the original; it is the original's when a life that is
// written down does not.
func Shrink(lived Lived, broken error, most int, live func(Script) error) (small Script, lives int) {
	s := &shrinker{live: live, most: most, wanted: Broke(broken), best: lived.Script}
	s.ending = !errors.As(broken, new(*guarantees.ViolationError))
	if !s.try(written(lived)) {
		return s.best, s.lives
	}
	s.shorten(lived, broken)
	s.still()
	s.decisions()
	s.values()
	s.decisions()
	return s.best, s.lives
}

// written is the script of a life with everything that its seed has decided.
func written(lived Lived) Script {
	script := lived.Script
	script.Written, script.Deviations, script.Jitters = true, lived.Deviations, lived.Jitters
	return script
}

type shrinker struct {
	live   func(Script) error
	most   int
	lives  int
	wanted string
	// ending says that it is the end that is wrong, and no promise that is broken.
	ending bool
	best   Script
}

// try keeps a script that breaks the same.
func (s *shrinker) try(script Script) bool {
	if s.lives >= s.most {
		return false
	}
	s.lives++
	if Broke(s.live(script)) != s.wanted {
		return false
	}
	s.best = script
	return true
}

// shorten ends the life soon after it was seen to be broken.
func (s *shrinker) shorten(lived Lived, broken error) {
	var shown *guarantees.ViolationError
	if !errors.As(broken, &shown) || len(shown.Events) == 0 || len(lived.Log.Events) == 0 {
		return
	}
	last := shown.Events[len(shown.Events)-1]
	seen := time.Duration(last.Ended - lived.Log.Events[0].Began) // whatever the clocks showed
	for _, more := range []time.Duration{5 * time.Second, time.Minute, 4 * time.Minute} {
		if seen+more >= s.best.Lasts {
			return
		}
		shorter := s.best.clone()
		shorter.Lasts, shorter.Calm = seen+more, 0
		shorter.Deeds = slices.DeleteFunc(shorter.Deeds, func(d Deed) bool { return d.At > shorter.Lasts })
		shorter.Deviations = slices.DeleteFunc(shorter.Deviations, func(d Deviation) bool { return d.Second > int64(shorter.Lasts/time.Second) })
		if s.try(shorter) {
			return
		}
	}
}

// still takes the network's jitter away, all at once if that can be.
func (s *shrinker) still() {
	calm := s.best.clone()
	calm.Jitters = nil
	if s.try(calm) {
		return
	}
	calm.Jitters = minimise(s.best.Jitters, func(kept []Window) bool {
		fewer := s.best.clone()
		fewer.Jitters = kept
		return s.try(fewer)
	})
}

// decisions leaves out deeds and deviations that are not needed.
func (s *shrinker) decisions() {
	silent := s.best.clone()
	if silent.Deviations = nil; len(s.best.Deviations) > 0 && !s.try(silent) {
		minimise(s.best.Deviations, func(kept []Deviation) bool {
			fewer := s.best.clone()
			fewer.Deviations = kept
			return s.try(fewer)
		})
	}
	var needed, rest []Deed // without amends no end is right
	for _, deed := range s.best.Deeds {
		if calm := s.best.Calm; s.ending && calm > 0 && deed.At >= calm-amendsBefore {
			needed = append(needed, deed)
		} else {
			rest = append(rest, deed)
		}
	}
	minimise(rest, func(kept []Deed) bool {
		fewer := s.best.clone()
		fewer.Deeds = slices.Concat(kept, needed)
		return s.try(fewer)
	})
}

// values makes what is left plainer: fewer nodes, shorter faults, simple applications.
func (s *shrinker) values() {
	for n := s.best.Nodes - 1; n > 0; n-- {
		fewer := s.best.clone()
		fewer.Nodes = n
		if !fewer.about() || !s.try(fewer) {
			break
		}
	}
	for i := range s.best.Deeds {
		for _, plainer := range s.best.Deeds[i].plainer() {
			changed := s.best.clone()
			changed.Deeds[i] = plainer
			s.try(changed)
		}
	}
}

// about reports whether all deeds are about nodes that there are.
func (s *Script) about() bool {
	names := s.NodeNames()
	return !slices.ContainsFunc(s.Deeds, func(d Deed) bool {
		node := d.Name[strings.IndexByte(d.Name, '/')+1:]
		return strings.HasPrefix(node, "node-") && !slices.Contains(names, node)
	})
}

func (s *Script) clone() Script {
	cloned := *s
	cloned.Deeds = slices.Clone(s.Deeds)
	cloned.Deviations, cloned.Jitters = slices.Clone(s.Deviations), slices.Clone(s.Jitters)
	return cloned
}

// plainer are variants of a deed in which one thing is simpler.
func (d Deed) plainer() []Deed {
	var all []Deed
	with := func(change func(*Deed)) {
		plain := d
		change(&plain)
		all = append(all, plain)
	}
	if d.App != (App{}) {
		with(func(p *Deed) { p.App = App{} })
	}
	if d.PreStop > 0 {
		with(func(p *Deed) { p.PreStop = 0 })
	}
	if d.Finalizer {
		with(func(p *Deed) { p.Finalizer = false })
	}
	if d.Count > 1 {
		with(func(p *Deed) { p.Count = 1 })
	}
	if d.Grace != nil && *d.Grace > 1 {
		with(func(p *Deed) { p.Grace = new(int64(1)) })
	}
	for _, ways := range d.plainerClocks() {
		with(func(p *Deed) { p.Ways = ways })
	}
	for _, shorter := range []time.Duration{time.Second, d.For / 4, d.For / 2} {
		if shorter > 0 && shorter < d.For {
			with(func(p *Deed) { p.For = shorter.Truncate(time.Millisecond) })
		}
	}
	return all
}

// minimise is ddmin: it returns a part of all that still fails, and of which nothing can be
// left out. fails is told of parts that are smaller than the last that failed.
func minimise[T any](all []T, fails func([]T) bool) []T {
	for parts := 2; len(all) > 0; {
		size := (len(all) + parts - 1) / parts
		smaller := false
		for from := 0; from < len(all); from += size {
			rest := slices.Concat(all[:from], all[min(from+size, len(all)):])
			if fails(rest) {
				all, smaller = rest, true
				parts = max(parts-1, 2)
				break
			}
		}
		switch {
		case smaller:
		case size == 1:
			return all
		default:
			parts = min(2*parts, len(all))
		}
	}
	return all
}

// storyLines is how many lines a story has at most.
const storyLines = 10

// Story tells in at most ten numbered lines what has to happen, in order, and what is
// broken then.
func Story(script Script, broken error) []string {
	type line struct {
		at   time.Duration
		text string
	}
	lines := make([]line, 0, len(script.Deeds)+len(script.Deviations))
	promised := errors.As(broken, new(*guarantees.ViolationError))
	for _, deed := range script.Deeds {
		if !promised && script.Calm > 0 && deed.At >= script.Calm-amendsBefore {
			continue
		}
		lines = append(lines, line{deed.At, deed.String()})
	}
	if script.Written {
		for _, d := range script.Deviations {
			at := time.Duration(d.Second) * time.Second
			lines = append(lines, line{at, clockOf(at)[:5] + ": " + d.String()})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	what, _, _ := strings.Cut(fmt.Sprint(broken), "\n")
	var story []string
	for i, l := range lines {
		if i == storyLines-2 && len(lines) > storyLines-1 {
			story = append(story, fmt.Sprintf("%d. … and %d more", len(story)+1, len(lines)-i))
			break
		}
		story = append(story, fmt.Sprintf("%d. %s", len(story)+1, l.text))
	}
	return append(story, fmt.Sprintf("%d. %s", len(story)+1, what))
}

// String is the deviation in a story.
func (d Deviation) String() string {
	what := fmt.Sprintf("takes %v", d.Delay.Truncate(time.Millisecond))
	switch d.Copies {
	case 0:
		what = "is lost"
	case 2:
		what = "comes twice"
	}
	return fmt.Sprintf("%s %q from %s to %s %s", d.Kind, d.About, d.From, d.To, what)
}
