package guarantees

import (
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

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
		for _, s := range p.unbroken(o.surelyTogether()) {
			if s.to == nil || p.apart(s.from, s.to) < 10*p.slack() || p.unseen(o, s) || !p.watchedOver(o, s) {
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

// watchedOver reports whether controllers that tell of windows had to know of a stretch of one: they
// saw the older leave, or found it when they began.
func (p *past) watchedOver(o overlap, s stretch) bool {
	return p.tellsWindows() && (p.controlled(o.older.leaves(s.from), s.to) && !p.unplaced(o.older) || p.takenUp(o, s))
}

// tellsWindows reports whether anybody told of a window.
func (p *past) tellsWindows() bool {
	for range factsOf[history.Window](p) {
		return true
	}
	return false
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
	boots := map[string]int{}
	for _, e := range p.events {
		if e.Process == controllers && before(e, from) {
			boots[string(e.Boot)] |= 1
		}
		if e.Process == controllers && before(to, e) {
			boots[string(e.Boot)] |= 2
		}
	}
	for _, both := range boots {
		if both == 3 {
			return true
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
