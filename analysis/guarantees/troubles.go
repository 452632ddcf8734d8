package guarantees

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/partition"
)

// ordeal is a trouble, from its beginning to its end.
type ordeal struct {
	history.Trouble
	begin *history.Event
	// end is nil for one that was not over when the history ended.
	end *history.Event
	// fault and cut are what its arguments say.
	fault fault.Fault
	cut   partition.Cut
}

// since is when it may have been in force first, and until when it may have been last; both
// in monotonic time.
func (o *ordeal) since() int64 { return o.begin.Began }

func (o *ordeal) until() int64 {
	if o.end == nil {
		return math.MaxInt64
	}
	return o.end.Ended
}

// surelyUntil is when it surely was not in force any more.
func (o *ordeal) surelyUntil() int64 {
	if o.end == nil {
		return math.MaxInt64
	}
	return o.end.Began
}

// touches reports whether it may have been in force between two moments.
func (o *ordeal) touches(from, to int64) bool { return o.since() <= to && o.until() >= from }

// ordeals are all troubles of the history, by their beginnings. A pause may be among them twice:
// as it was asked for, and as its process has noticed it.
func (p *past) ordeals() []*ordeal {
	var all, open []*ordeal
	for _, e := range p.events {
		switch fact := e.Fact.(type) {
		case history.FaultWatch:
			open = slices.DeleteFunc(open, func(o *ordeal) bool {
				lost := slices.Contains(fact.Kinds, o.Kind) && o.begin.Boot != e.Boot
				if lost {
					o.end = e
				}
				return lost
			})
		case history.FaultBegin:
			if !slices.ContainsFunc(open, func(o *ordeal) bool { return o.Is(fact.Trouble) }) {
				open = append(open, understood(fact.Trouble, e))
				all = append(all, open[len(open)-1])
			}
		case history.FaultEnd:
			at := slices.IndexFunc(open, func(o *ordeal) bool { return o.Is(fact.Trouble) })
			if at >= 0 {
				open[at].end = e
				open = slices.Delete(open, at, at+1)
			}
		case history.Stall: // to all others as if somebody had paused it
			all = append(all, &ordeal{Trouble: history.Trouble{Kind: history.TroublePaused, What: e.Process}, begin: e, end: e})
		}
	}
	slices.SortStableFunc(all, func(a, b *ordeal) int { return cmp.Compare(a.since(), b.since()) })
	return all
}

// understood reads a trouble's arguments; what cannot be read stays empty.
func understood(t history.Trouble, begin *history.Event) *ordeal {
	o := &ordeal{Trouble: t, begin: begin}
	switch t.Kind {
	case history.TroubleFault:
		_ = json.Unmarshal(t.Arguments, &o.fault)
	case history.TroubleCut:
		_ = json.Unmarshal(t.Arguments, &o.cut)
	case history.TroubleClock, history.TroubleDown, history.TroublePaused:
	}
	return o
}

// full reports whether it is a cut through which nothing passes, either way, all the time.
func (o *ordeal) full() bool {
	spec := o.cut.Spec
	if o.Kind != history.TroubleCut || len(spec.Only) > 0 || spec.Flap != (partition.Flap{}) || spec.Manner == partition.Carry {
		return false
	}
	if spec.Manner == partition.Reset {
		return true
	}
	slow := spec.Latency.Duration > 0 || spec.Jitter.Duration > 0 || spec.Bandwidth > 0
	return (spec.Direction == "" || spec.Direction == partition.Both) && (spec.Manner == partition.Hold || !slow)
}

// findWatched finds the moment from which troubles of all kinds are written down; false when some
// never are.
func (p *past) findWatched() (from int64, all bool) {
	since := make(map[history.TroubleKind]int64)
	for e, fact := range factsOf[history.FaultWatch](p) {
		for _, kind := range fact.Kinds {
			if _, known := since[kind]; !known {
				since[kind] = e.Ended
			}
		}
	}
	for _, at := range since {
		from = max(from, at)
	}
	const kinds = 5
	return max(from, p.from), len(since) == kinds
}

// calm is a time in which nothing is broken: a fair suffix, until it is broken again or the
// history ends.
type calm struct {
	// from and to are in monotonic time.
	from, to int64
	// began is the event with which it began; nil for the beginning of the history.
	began *history.Event
}

// findCalms finds all of them, in order.
func (p *past) findCalms() []calm {
	from, all := p.watched()
	if !all {
		return nil
	}
	var found []calm
	var began *history.Event
	for _, o := range p.troubles {
		if o.since()-eps > from {
			found = append(found, calm{from, o.since() - eps, began})
		}
		if o.until() > from {
			from, began = o.until(), o.end
		}
	}
	if p.latest > from {
		found = append(found, calm{from, p.latest, began})
	}
	return found
}

// clockSet reports whether a process' clock may have begun to be wrong, or right again, between two moments.
func (p *past) clockSet(process string, from, to int64) bool {
	between := func(at int64) bool { return from-int64(time.Second) <= at && at <= to+int64(time.Second) }
	return slices.ContainsFunc(p.troubles, func(o *ordeal) bool { return o.misleads(process) && (between(o.since()) || between(o.until())) })
}

// skewed reports whether a process' clock may have been wrong between two moments.
func (p *past) skewed(process string, from, to int64) bool {
	return slices.ContainsFunc(p.troubles, func(o *ordeal) bool {
		return o.misleads(process) && o.touches(from-int64(time.Second), to+int64(time.Second))
	})
}

// misleads reports whether it is that a process' clock is wrong.
func (o *ordeal) misleads(process string) bool {
	return o.Kind == history.TroubleFault && o.fault.Spec.Concerns(fault.ClockSkew, fault.About{Process: process, Node: nodeOf(process)})
}

// late reports whether more than a grace period and some slack has passed between two
// moments: by the cluster's clock, and the slack by the machine's too, which has to do the
// work however fast the cluster's clock runs.
func (p *past) late(from, to int64, grace, slack time.Duration) bool {
	return to-from > int64(slack) && p.passed(from, to) > grace+slack
}

// passed is how much of the cluster's time has passed between two moments, at least.
func (p *past) passed(from, to int64) time.Duration {
	first, _ := p.tick(from)
	last, found := p.tick(to)
	if !found {
		last--
	}
	if first > last || first >= len(p.ticks) {
		return 0
	}
	return p.ticks[last].Wall.Sub(p.ticks[first].Wall)
}

// passedAtMost is how much of the cluster's time has passed between two moments, at most.
func (p *past) passedAtMost(from, to int64) time.Duration {
	first, found := p.tick(from)
	if !found {
		first--
	}
	last, _ := p.tick(to)
	if first < 0 || last >= len(p.ticks) {
		return math.MaxInt64
	}
	return p.ticks[last].Wall.Sub(p.ticks[first].Wall)
}

// shows is what the cluster's clock showed when an event was over, at the earliest and at the
// latest: what its process says, unless its clock may have been wrong.
func (p *past) shows(e *history.Event) (first, last time.Time) {
	if !p.skewed(e.Process, e.Began, e.Ended) {
		return e.Wall, e.Wall
	}
	at, exact := p.tick(e.Ended)
	last = time.Unix(math.MaxInt32, 0)
	if at < len(p.ticks) {
		last = p.ticks[at].Wall
	}
	switch {
	case exact:
		first = last
	case at > 0:
		first = p.ticks[at-1].Wall
	}
	return first, last
}

// apart is how much of the cluster's time has passed from one event to another, at least.
func (p *past) apart(from, to *history.Event) time.Duration {
	_, first := p.shows(from)
	last, _ := p.shows(to)
	return last.Sub(first)
}

// tick is the place of the first tick from a moment on, and whether it is of that very moment.
func (p *past) tick(at int64) (place int, exact bool) {
	return slices.BinarySearchFunc(p.ticks, at, func(e *history.Event, at int64) int { return cmp.Compare(e.Ended, at) })
}

// timekeeper is the events of processes whose clocks were right all the time.
func (p *past) timekeeper() []*history.Event {
	wrong := map[string]bool{"supervisor": true} // which does not hear of changes
	for process := range p.incarnations {
		wrong[process] = wrong[process] || p.skewed(process, 0, math.MaxInt64-int64(time.Second))
	}
	ticks := slices.DeleteFunc(slices.Clone(p.events), func(e *history.Event) bool { return wrong[e.Process] })
	slices.SortStableFunc(ticks, func(a, b *history.Event) int { return cmp.Compare(a.Ended, b.Ended) })
	return ticks
}

// circumstances are what the cluster was like, as checkers look it up.
type circumstances struct {
	// troubles are all of the history.
	troubles []*ordeal
	// ticks tell the cluster's time, by their ends.
	ticks []*history.Event
	// kubelets are the nodes that have one.
	kubelets map[string]bool
}

// look finds them.
func (p *past) look() {
	p.troubles = p.ordeals()
	p.ticks = p.timekeeper()
	p.kubelets = map[string]bool{}
	for _, boot := range factsOf[history.KubeletBoot](p) {
		p.kubelets[boot.Node] = true
	}
}
