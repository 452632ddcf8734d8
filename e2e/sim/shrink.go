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

// ViolationName names what a run has violated: the id of the guarantee, the kind of wrong final
// state, or "run"; empty for nothing.
func ViolationName(err error) string {
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
		{ErrStillChanging, "restless"},
		{ErrOwnerGone, "left"},
		{ErrNamespaceGone, "nowhere"},
		{ErrStillDeleting, "held"},
		{ErrDisks, "disks"},
		{ErrInvalidRequest, "improper"},
	} {
		if errors.Is(err, end.is) {
			return end.name
		}
	}
	return "run"
}

// Shrink makes the script of a failed run as small as possible in at most the given number of runs.
// The script is recorded first. Then everything unneeded is removed: the end, then actions and
// network decisions, then values. live runs and judges a script. The result fails in the same way.
// If a recorded run does not fail, the original is returned.
func Shrink(result Result, broken error, most int, live func(Script) error) (small Script, lives int) {
	s := &shrinker{run: live, most: most, wanted: ViolationName(broken), best: result.Script}
	s.finalState = !errors.As(broken, new(*guarantees.ViolationError))
	if !s.try(recordedScript(result)) {
		return s.best, s.runs
	}
	s.shorten(result, broken)
	s.removeJitters()
	s.removeDecisions()
	s.simplifyValues()
	s.removeDecisions()
	return s.best, s.runs
}

// recordedScript returns the script of a run with every decision that its seed made.
func recordedScript(result Result) Script {
	script := result.Script
	script.Recorded, script.Deviations, script.Jitters = true, result.Deviations, result.Jitters
	return script
}

type shrinker struct {
	run    func(Script) error
	most   int
	runs   int
	wanted string
	// finalState means that the final state is wrong, and no guarantee is violated.
	finalState bool
	best       Script
}

// try keeps a script that fails in the same way.
func (s *shrinker) try(script Script) bool {
	if s.runs >= s.most {
		return false
	}
	s.runs++
	if ViolationName(s.run(script)) != s.wanted {
		return false
	}
	s.best = script
	return true
}

// shorten ends the run soon after the violation was seen.
func (s *shrinker) shorten(result Result, broken error) {
	var shown *guarantees.ViolationError
	if !errors.As(broken, &shown) || len(shown.Events) == 0 || len(result.Log.Events) == 0 {
		return
	}
	last := shown.Events[len(shown.Events)-1]
	seen := time.Duration(last.Ended - result.Log.Events[0].Began) // whatever the clocks showed
	for _, more := range []time.Duration{5 * time.Second, time.Minute, 4 * time.Minute} {
		if seen+more >= s.best.Duration {
			return
		}
		shorter := s.best.clone()
		shorter.Duration, shorter.FaultsEnd = seen+more, 0
		shorter.Actions = slices.DeleteFunc(shorter.Actions, func(d Action) bool { return d.At > shorter.Duration })
		shorter.Deviations = slices.DeleteFunc(shorter.Deviations, func(d Deviation) bool { return d.Second > int64(shorter.Duration/time.Second) })
		if s.try(shorter) {
			return
		}
	}
}

// removeJitters removes the network's jitter, all at once if possible.
func (s *shrinker) removeJitters() {
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

// removeDecisions leaves out actions and deviations that are not needed.
func (s *shrinker) removeDecisions() {
	silent := s.best.clone()
	if silent.Deviations = nil; len(s.best.Deviations) > 0 && !s.try(silent) {
		minimise(s.best.Deviations, func(kept []Deviation) bool {
			fewer := s.best.clone()
			fewer.Deviations = kept
			return s.try(fewer)
		})
	}
	var needed, rest []Action // without amends no end is right
	for _, action := range s.best.Actions {
		if calm := s.best.FaultsEnd; s.finalState && calm > 0 && action.At >= calm-cleanupBefore {
			needed = append(needed, action)
		} else {
			rest = append(rest, action)
		}
	}
	minimise(rest, func(kept []Action) bool {
		fewer := s.best.clone()
		fewer.Actions = slices.Concat(kept, needed)
		return s.try(fewer)
	})
}

// simplifyValues simplifies what is left: fewer nodes, shorter faults, simple applications.
func (s *shrinker) simplifyValues() {
	for n := s.best.Nodes - 1; n > 0; n-- {
		fewer := s.best.clone()
		fewer.Nodes = n
		if !fewer.namesKnownNodes() || !s.try(fewer) {
			break
		}
	}
	for i := range s.best.Actions {
		for _, plainer := range s.best.Actions[i].simplified() {
			changed := s.best.clone()
			changed.Actions[i] = plainer
			s.try(changed)
		}
	}
}

// namesKnownNodes reports whether every action names nodes that exist.
func (s *Script) namesKnownNodes() bool {
	names := s.NodeNames()
	return !slices.ContainsFunc(s.Actions, func(d Action) bool {
		node := d.Name[strings.IndexByte(d.Name, '/')+1:]
		return strings.HasPrefix(node, "node-") && !slices.Contains(names, node)
	})
}

func (s *Script) clone() Script {
	cloned := *s
	cloned.Actions = slices.Clone(s.Actions)
	cloned.Deviations, cloned.Jitters = slices.Clone(s.Deviations), slices.Clone(s.Jitters)
	return cloned
}

// simplified returns variants of the action in which one thing is simpler.
func (d Action) simplified() []Action {
	var all []Action
	with := func(change func(*Action)) {
		plain := d
		change(&plain)
		all = append(all, plain)
	}
	if d.App != (App{}) {
		with(func(p *Action) { p.App = App{} })
	}
	if d.PreStop > 0 {
		with(func(p *Action) { p.PreStop = 0 })
	}
	if d.Finalizer {
		with(func(p *Action) { p.Finalizer = false })
	}
	if d.Count > 1 {
		with(func(p *Action) { p.Count = 1 })
	}
	if d.Grace != nil && *d.Grace > 1 {
		with(func(p *Action) { p.Grace = new(int64(1)) })
	}
	for _, ways := range d.simplifiedClocks() {
		with(func(p *Action) { p.Detail = ways })
	}
	for _, shorter := range []time.Duration{time.Second, d.For / 4, d.For / 2} {
		if shorter > 0 && shorter < d.For {
			with(func(p *Action) { p.For = shorter.Truncate(time.Millisecond) })
		}
	}
	return all
}

// minimise is ddmin. It returns a part of all that still fails, and of which nothing can be left
// out. Each part given to fails is smaller than the last that failed.
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

// storyLines is the maximum number of lines of a story.
const storyLines = 10

// Story returns at most ten numbered lines: what happens, in order, and what is violated then.
func Story(script Script, broken error) []string {
	type line struct {
		at   time.Duration
		text string
	}
	lines := make([]line, 0, len(script.Actions)+len(script.Deviations))
	promised := errors.As(broken, new(*guarantees.ViolationError))
	for _, action := range script.Actions {
		if !promised && script.FaultsEnd > 0 && action.At >= script.FaultsEnd-cleanupBefore {
			continue
		}
		lines = append(lines, line{action.At, action.String()})
	}
	if script.Recorded {
		for _, d := range script.Deviations {
			at := time.Duration(d.Second) * time.Second
			lines = append(lines, line{at, formatClock(at)[:5] + ": " + d.String()})
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

// String returns the deviation as a line of a story.
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
