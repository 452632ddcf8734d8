package guarantees

import (
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// checkWindows checks C2: users were told of exactly the split-brain windows that happened.
func checkWindows(p *clusterHistory, t *tally) {
	found, _ := p.overlaps()
	told := map[[2]string][]history.Window{}
	for e, fact := range factsOf[history.Window](p) {
		if len(fact.UIDs) != 2 || p.pods[fact.UIDs[0]] == nil || !p.isComplete(p.pods[fact.UIDs[0]]) {
			continue
		}
		pair := [2]string{fact.UIDs[0], fact.UIDs[1]}
		told[pair] = append(told[pair], fact)
		at := slices.IndexFunc(found, func(o overlap) bool { return o.older.uid == pair[0] && o.younger.uid == pair[1] })
		if at < 0 && p.mayHaveOverlapped(pair) {
			continue
		}
		t.expect(at >= 0, "users were told of a split-brain window that was none", e)
		if at >= 0 {
			p.checkReportedTimes(found[at], fact, e, t)
		}
	}
	for _, o := range found {
		for _, s := range p.mergeStretches(o.sureTimes()) {
			if s.to == nil || p.minApart(s.from, s.to) < 10*p.clockError() || p.wasInvisible(o, s) || !p.mustHaveBeenSeen(o, s) {
				continue
			}
			was := slices.ContainsFunc(told[[2]string{o.older.uid, o.younger.uid}], func(w history.Window) bool {
				first, _ := p.clusterTime(s.from)
				_, last := p.clusterTime(s.to)
				return !w.Begin.Before(first.Add(-p.clockError())) && w.Begin.Before(last)
			})
			t.expect(was, "users were not told of a split-brain window", o.evidence(s.from, s.to)...)
		}
	}
}

// mustHaveBeenSeen reports whether controllers that report windows had to know of a stretch: they
// saw the older pod leave, or found it after a restart.
func (p *clusterHistory) mustHaveBeenSeen(o overlap, s stretch) bool {
	return p.reportsWindows() && (p.controllersRanThrough(o.older.leftBy(s.from), s.to) && !p.neverSeenBound(o.older) || p.couldTakeUp(o, s))
}

// reportsWindows reports whether any window was reported.
func (p *clusterHistory) reportsWindows() bool {
	for range factsOf[history.Window](p) {
		return true
	}
	return false
}

// leftBy returns the pod's removal from the API, or the event if that came first. Controllers that
// did not run then do not know of the removal.
func (one *podHistory) leftBy(by *history.Event) *history.Event {
	if last := one.commits[len(one.commits)-1]; last.Op == deleted && last.Began < by.Began {
		return last.Event
	}
	return by
}

// wasInvisible reports whether a window could not be seen: the runtime of one of the incarnations
// could not be polled during the stretch, or the controllers were paused from its beginning to its
// end.
func (p *clusterHistory) wasInvisible(o overlap, s stretch) bool {
	return slices.ContainsFunc(p.troubles, func(trouble *trouble) bool {
		stood := trouble.Kind == history.TroublePaused && trouble.What == controllers
		if stood && trouble.since() <= s.from.Ended+int64(2*p.clockError()) && trouble.until() >= s.to.Began {
			return true
		}
		away := trouble.Kind == history.TroubleDown || trouble.Kind == history.TroublePaused
		return away && (trouble.What == "runtime/"+o.older.nodeName() || trouble.What == "runtime/"+o.younger.nodeName()) && trouble.mayOverlap(s.from.Began, s.to.Ended)
	})
}

// mergeStretches joins stretches with gaps too short to be noticed, for example those between a
// pod's init containers.
func (p *clusterHistory) mergeStretches(all []stretch) []stretch {
	var merged []stretch
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].to != nil && p.minApart(merged[n-1].to, s.from) <= 2*p.clockError() {
			merged[n-1].to = later(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// checkReportedTimes checks the reported beginning and end of a window.
func (p *clusterHistory) checkReportedTimes(o overlap, told history.Window, e *history.Event, t *tally) {
	begins, ends := false, told.End == nil
	for _, s := range o.possibleTimes() {
		begins = begins || p.mayHaveShown(told.Begin, s.from)
		// Who is paused, or hears nothing, notices an end later than it was; and what a runtime
		// was about to do when it was paused it does right after, and holds for done before.
		ends = ends || s.to == nil || p.mayHaveShown(*told.End, s.to) ||
			slices.ContainsFunc(p.troubles, func(trouble *trouble) bool {
				return trouble.mayOverlap(s.to.Began-int64(time.Second), e.Ended)
			})
	}
	t.expect(begins, "users were told another beginning of a split-brain window", o.evidence(e)...)
	t.expect(ends, "users were told another end of a split-brain window", o.evidence(e)...)
}

// mayHaveOverlapped reports whether two incarnations may have run at the same time, perhaps too
// briefly to be measured.
func (p *clusterHistory) mayHaveOverlapped(pair [2]string) bool {
	older, younger := p.pods[pair[0]], p.pods[pair[1]]
	if older == nil || younger == nil || older.firstStart() == nil || younger.firstStart() == nil {
		return false
	}
	begin := later(older.firstStart(), younger.firstStart())
	return !slices.ContainsFunc([]*podHistory{older, younger}, func(one *podHistory) bool {
		gone := one.lastExit()
		return gone != nil && gone.Ended+recordDelay < begin.Began
	})
}

// controllersRanThrough reports whether one boot of the controllers, which report windows, recorded
// something before and after.
func (p *clusterHistory) controllersRanThrough(from, to *history.Event) bool {
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

// mayHaveShown reports whether the cluster's clock may have shown a time when an event was over.
func (p *clusterHistory) mayHaveShown(shows time.Time, e *history.Event) bool {
	first, last := p.clusterTime(e)
	return !shows.Before(first.Add(-p.clockError())) && !shows.After(last.Add(p.clockError()))
}

// clockError is the precision of times on the cluster's clock: a second, and its progress in half a
// second of machine time.
func (p *clusterHistory) clockError() time.Duration {
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
