package guarantees

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// overlap is a time during which containers of two incarnations of one identity ran, by
// what the runtimes have written down.
type overlap struct {
	older, younger *pod
	// begin is the later of their first starts, and end the first exit after it that left one of
	// the two without a container; nil when the history ends before.
	begin, end *history.Event
}

func (o overlap) against(more ...*history.Event) []*history.Event {
	return append([]*history.Event{o.older.first(), o.begin, o.end}, more...)
}

// first is the first start of a container of the pod.
func (one *pod) first() (first *history.Event) {
	for _, c := range one.containers {
		for _, e := range c.started {
			if first == nil || e.Began < first.Began {
				first = e
			}
		}
	}
	return first
}

// gone is the exit after which none of the pod's containers ran; nil when there is none.
func (one *pod) gone() (last *history.Event) {
	for _, c := range one.containers {
		if len(c.started) == 0 {
			continue
		}
		if len(c.exits) == 0 {
			return nil
		}
		if exit := c.exits[len(c.exits)-1]; last == nil || exit.Began > last.Began {
			last = exit
		}
	}
	return last
}

// overlaps sweeps over the lives of each identity, which are in the order in which they were
// made: the older may be started last, where its kubelet hears of it late. It also returns how
// many successors there were.
func (p *past) overlaps() (found []overlap, successors int) {
	byName := map[string][]*pod{}
	for _, one := range p.lives() {
		if one.first() != nil {
			byName[one.name] = append(byName[one.name], one)
		}
	}
	for _, lives := range byName {
		for i, older := range lives {
			for _, younger := range lives[i+1:] {
				successors++
				if o, both := p.overlap(older, younger); both {
					found = append(found, o)
				}
			}
		}
	}
	return found, successors
}

// overlap is when both of two incarnations ran.
func (p *past) overlap(older, younger *pod) (overlap, bool) {
	o := overlap{older: older, younger: younger, begin: later(older.first(), younger.first())}
	for _, one := range []*pod{older, younger} {
		gone := one.gone()
		if gone == nil && one.first() != o.begin && !p.alive(one, o.begin) || gone != nil && gone.Began <= o.begin.Ended+eps {
			return overlap{}, false
		}
		if o.end == nil || gone != nil && gone.Ended < o.end.Ended {
			o.end = gone
		}
	}
	return o, true
}

// alive reports whether the runtime of a pod that has told of no exit has told anything
// after a moment.
func (p *past) alive(one *pod, at *history.Event) bool {
	process := one.first().Process
	for _, e := range slices.Backward(p.events) {
		if e.Process == process {
			return before(at, e)
		}
	}
	return false
}

// atMostOne checks C1: two incarnations of one identity run at the same time only where
// somebody but its kubelet had removed the older.
func atMostOne(p *past, t *trial) {
	found, successors := p.overlaps()
	t.cases += successors - len(found)
	for _, o := range found {
		last := o.older.commits[len(o.older.commits)-1]
		t.expect(p.forcedBefore(o.older, o.begin), "two incarnations ran at the same time, and nobody had forced the older away", o.against(last.Event)...)
	}
}

// forcedBefore reports whether somebody but its kubelet had removed a pod by then.
func (p *past) forcedBefore(one *pod, e *history.Event) bool {
	last := one.commits[len(one.commits)-1]
	return last.Op == deleted && last.Began <= e.Ended+eps && last.by != nil && last.by.node == ""
}

// stretch is a time, from one event to another; to nil when the history ends before.
type stretch struct{ from, to *history.Event }

// surelyRan are the containers of a pod but those whose start had not ended when they were killed: to
// some they are alive, to others not.
func (one *pod) surelyRan() []*container {
	return slices.DeleteFunc(slices.Clone(one.containers), func(c *container) bool {
		return len(c.exits) > 0 && unstarted(c.exits[len(c.exits)-1])
	})
}

// stretchesOf are the times during which one of the containers ran, or was being started.
func stretchesOf(containers []*container) []stretch {
	var all []stretch
	for _, c := range containers {
		if len(c.started) == 0 {
			continue
		}
		ran := stretch{from: c.started[0]}
		if len(c.exits) > 0 {
			ran.to = c.exits[len(c.exits)-1]
		}
		all = append(all, ran)
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from.Began, b.from.Began) })
	var merged []stretch
	for _, ran := range all {
		if n := len(merged); n > 0 && (merged[n-1].to == nil || ran.from.Began <= merged[n-1].to.Ended) {
			merged[n-1].to = later(merged[n-1].to, ran.to)
			continue
		}
		merged = append(merged, ran)
	}
	return merged
}

// later is the later of two ends; nil is the last.
func later(a, b *history.Event) *history.Event {
	if a == nil || b == nil {
		return nil
	}
	if a.Began > b.Began {
		return a
	}
	return b
}

// together are the times during which containers of both ran, or were being started.
func (o overlap) together() []stretch {
	return common(stretchesOf(o.older.containers), stretchesOf(o.younger.containers))
}

// surelyTogether are the times during which containers of both ran.
func (o overlap) surelyTogether() []stretch {
	return common(stretchesOf(o.older.surelyRan()), stretchesOf(o.younger.surelyRan()))
}

// common are the times that are in both.
func common(older, younger []stretch) []stretch {
	var both []stretch
	for _, a := range older {
		for _, b := range younger {
			s := stretch{from: later(a.from, b.from), to: a.to}
			if s.to == nil || b.to != nil && b.to.Began < s.to.Began {
				s.to = b.to
			}
			if s.to == nil || s.from.Ended < s.to.Began {
				both = append(both, s)
			}
		}
	}
	return both
}

// shown checks C2: the split-brain windows that users were told of are those that were.
func shown(p *past, t *trial) {
	found, _ := p.overlaps()
	told := map[[2]string][]history.Window{}
	for e, fact := range factsOf[history.Window](p) {
		if len(fact.UIDs) != 2 || p.pods[fact.UIDs[0]] == nil || !p.whole(p.pods[fact.UIDs[0]]) {
			continue
		}
		pair := [2]string{fact.UIDs[0], fact.UIDs[1]}
		told[pair] = append(told[pair], fact)
		at := slices.IndexFunc(found, func(o overlap) bool { return o.older.uid == pair[0] && o.younger.uid == pair[1] })
		if at < 0 && p.nearly(pair) {
			continue
		}
		t.expect(at >= 0, "users were told of a split-brain window that was none", e)
		if at >= 0 {
			p.rightly(found[at], fact, e, t)
		}
	}
	for _, o := range found {
		if p.unplaced(o.older) {
			continue
		}
		for _, s := range p.unbroken(o.surelyTogether()) {
			if s.to == nil || p.apart(s.from, s.to) < 10*p.slack() || !p.controlled(o.older.leaves(s.from), s.to) || p.unseen(o, s) {
				continue
			}
			was := slices.ContainsFunc(told[[2]string{o.older.uid, o.younger.uid}], func(w history.Window) bool {
				first, _ := p.shows(s.from)
				_, last := p.shows(s.to)
				return !w.Begin.Before(first.Add(-p.slack())) && w.Begin.Before(last)
			})
			t.expect(was, "users were not told of a split-brain window", o.against(s.from, s.to)...)
		}
	}
}

// leaves is when the pod left the API, or the event if that was before: who did not run then
// does not know of it.
func (one *pod) leaves(by *history.Event) *history.Event {
	if last := one.commits[len(one.commits)-1]; last.Op == deleted && last.Began < by.Began {
		return last.Event
	}
	return by
}

// unseen reports whether the runtime of one of two incarnations could not be asked at some
// time of a stretch, or the controllers stood still from its very beginning to its end: what
// cannot be seen is not told.
func (p *past) unseen(o overlap, s stretch) bool {
	return slices.ContainsFunc(p.troubles, func(trouble *ordeal) bool {
		stood := trouble.Kind == history.TroublePaused && trouble.What == controllers
		if stood && trouble.since() <= s.from.Ended+int64(2*p.slack()) && trouble.until() >= s.to.Began {
			return true
		}
		away := trouble.Kind == history.TroubleDown || trouble.Kind == history.TroublePaused
		return away && (trouble.What == "runtime/"+o.older.node() || trouble.What == "runtime/"+o.younger.node()) && trouble.touches(s.from.Began, s.to.Ended)
	})
}

// unbroken are stretches without the breaks that are too short to be noticed, such as those
// between a pod's init containers.
func (p *past) unbroken(all []stretch) []stretch {
	var merged []stretch
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].to != nil && p.apart(merged[n-1].to, s.from) <= 2*p.slack() {
			merged[n-1].to = later(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// rightly checks what users were told of a window: its beginning and its end.
func (p *past) rightly(o overlap, told history.Window, e *history.Event, t *trial) {
	begins, ends := false, told.End == nil
	for _, s := range o.together() {
		begins = begins || p.near(told.Begin, s.from)
		// Who is paused, or hears nothing, notices an end later than it was; and what a runtime
		// was about to do when it was paused it does right after, and holds for done before.
		ends = ends || s.to == nil || p.near(*told.End, s.to) ||
			slices.ContainsFunc(p.troubles, func(trouble *ordeal) bool {
				return trouble.touches(s.to.Began-int64(time.Second), e.Ended)
			})
	}
	t.expect(begins, "users were told another beginning of a split-brain window", o.against(e)...)
	t.expect(ends, "users were told another end of a split-brain window", o.against(e)...)
}

// nearly reports whether two incarnations may have run at the same time, if for less than can
// be told apart.
func (p *past) nearly(pair [2]string) bool {
	older, younger := p.pods[pair[0]], p.pods[pair[1]]
	if older == nil || younger == nil || older.first() == nil || younger.first() == nil {
		return false
	}
	begin := later(older.first(), younger.first())
	return !slices.ContainsFunc([]*pod{older, younger}, func(one *pod) bool {
		gone := one.gone()
		return gone != nil && gone.Ended+eps < begin.Began
	})
}

// controlled reports whether the controllers, which tell of windows, ran all the time: one
// incarnation of them has told something before and after.
func (p *past) controlled(from, to *history.Event) bool {
	boots, windows := map[string]int{}, false
	for _, e := range p.events {
		_, window := e.Fact.(history.Window)
		windows = windows || window
		if e.Process == controllers && before(e, from) {
			boots[string(e.Boot)] |= 1
		}
		if e.Process == controllers && before(to, e) {
			boots[string(e.Boot)] |= 2
		}
	}
	for _, both := range boots {
		if both == 3 {
			return windows
		}
	}
	return false
}

// near reports whether the cluster's clock may have shown that when an event was over.
func (p *past) near(shows time.Time, e *history.Event) bool {
	first, last := p.shows(e)
	return !shows.Before(first.Add(-p.slack())) && !shows.After(last.Add(p.slack()))
}

// slack is how exact times in the cluster's clock are: a second, and what it does in half
// a second of the machine's.
func (p *past) slack() time.Duration {
	if len(p.ticks) == 0 {
		return time.Second
	}
	first, last := p.ticks[0], p.ticks[len(p.ticks)-1]
	machine, cluster := last.Ended-first.Ended, last.Wall.Sub(first.Wall)
	if machine <= 0 {
		return time.Second
	}
	speed := math.Abs(float64(cluster) / float64(machine))
	return time.Second + time.Duration(speed*float64(500*time.Millisecond))
}

// nameLocked checks C3: a name is taken until its object is gone.
func nameLocked(p *past, t *trial) {
	there := map[string]*commit{}
	for _, c := range p.commits {
		if c.Resource != podResource {
			continue
		}
		switch c.Op {
		case added:
			t.expect(there[c.Key] == nil, "a pod was created while another had its name", eventOf(there[c.Key]), c.Event)
			there[c.Key] = c
		case deleted:
			delete(there, c.Key)
		}
	}
	p.oneAfterTheOther(t)
}

// podCollector is the name of the pod garbage collector, as its decisions have it.
const podCollector = "pod-garbage-collector-controller"

// begins checks C7: controllers only begin deletion; only the pod garbage collector
// force-deletes.
func begins(p *past, t *trial) {
	p.decidedDeletes(func(d history.Decide, decided *history.Event, o *operation) {
		forced := o.Grace != nil && *o.Grace == 0
		t.expect(!forced || d.Controller == podCollector, "a controller force-deleted a pod", decided, o.calls[0])
	})
}

// decidedDeletes visits the deletes of pods that controllers decided on, each with its
// operation. Where two controllers deleted one name nothing is said of it.
func (p *past) decidedDeletes(visit func(history.Decide, *history.Event, *operation)) {
	decided := map[string]map[string]*history.Event{}
	for e, fact := range factsOf[history.Decide](p) {
		if fact.Action == "delete" && fact.Resource == podResource {
			if decided[fact.Key] == nil {
				decided[fact.Key] = map[string]*history.Event{}
			}
			decided[fact.Key][fact.Controller] = e
		}
	}
	for _, o := range p.operations {
		if o.Who != controllers || o.Verb != "delete" || o.Resource != podResource || len(decided[o.Key]) != 1 {
			continue
		}
		for _, e := range decided[o.Key] {
			fact, _ := e.Fact.(history.Decide)
			visit(fact, e, o)
		}
	}
}

// boundOnce checks C8: a pod is given one node, and none while it is being deleted.
func boundOnce(p *past, t *trial) {
	for _, c := range p.commits {
		if was := c.before; was != nil && c.Resource == podResource && c.Op == modified && was.Node != c.Node {
			t.expect(was.Node == "" && was.Deadline == nil, "a pod was given a node that had one, or that is being deleted", was.Event, c.Event)
		}
	}
}
