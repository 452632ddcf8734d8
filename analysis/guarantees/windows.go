package guarantees

import (
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// checkWindows checks C2: users were told of exactly the split-brain windows that happened.
func checkWindows(h *clusterHistory, t *tally) {
	found, _ := h.overlaps()
	reported := map[[2]string][]history.Window{}
	for e, fact := range factsOf[history.Window](h) {
		if len(fact.UIDs) != 2 || h.pods[fact.UIDs[0]] == nil || !h.isComplete(h.pods[fact.UIDs[0]]) {
			continue
		}
		pair := [2]string{fact.UIDs[0], fact.UIDs[1]}
		reported[pair] = append(reported[pair], fact)
		at := slices.IndexFunc(found, func(o overlap) bool { return o.older.uid == pair[0] && o.younger.uid == pair[1] })
		if at < 0 && h.mayHaveOverlapped(pair) {
			continue
		}
		t.expect(at >= 0, "a split-brain window was reported that did not happen", e)
		if at >= 0 {
			h.checkReportedTimes(found[at], fact, e, t)
		}
	}
	for _, o := range found {
		for _, s := range h.mergeStretches(o.sureTimes()) {
			if s.to == nil || h.minApart(s.from, s.to) < 10*h.clockError() || h.wasInvisible(o, s) || !h.mustHaveBeenSeen(o, s) {
				continue
			}
			wasReported := slices.ContainsFunc(reported[[2]string{o.older.uid, o.younger.uid}], func(w history.Window) bool {
				first, _ := h.clusterTime(s.from)
				_, last := h.clusterTime(s.to)
				return !w.Begin.Before(first.Add(-h.clockError())) && w.Begin.Before(last)
			})
			t.expect(wasReported, "users were not told of a split-brain window", o.evidence(s.from, s.to)...)
		}
	}
}

// mustHaveBeenSeen reports whether controllers that report windows had to know of a stretch: they
// saw the older pod leave, or found it after a restart.
func (h *clusterHistory) mustHaveBeenSeen(o overlap, s stretch) bool {
	return h.reportsWindows() && (h.controllersRanThrough(o.older.leftBy(s.from), s.to) && !h.neverSeenBound(o.older) || h.couldTakeUp(o, s))
}

// reportsWindows reports whether any window was reported.
func (h *clusterHistory) reportsWindows() bool {
	for range factsOf[history.Window](h) {
		return true
	}
	return false
}

// leftBy returns the pod's removal from the API, or the event if that came first. Controllers that
// did not run then do not know of the removal.
func (pod *podHistory) leftBy(by *history.Event) *history.Event {
	if last := pod.commits[len(pod.commits)-1]; last.Op == deleted && last.Began < by.Began {
		return last.Event
	}
	return by
}

// wasInvisible reports whether a window could not be seen: the runtime of one of the incarnations
// could not be polled during the stretch, or the controllers were paused from its beginning to its
// end.
func (h *clusterHistory) wasInvisible(o overlap, s stretch) bool {
	return slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
		stalled := tr.Kind == history.TroublePaused && tr.What == controllers
		if stalled && tr.since() <= s.from.Ended+int64(2*h.clockError()) && tr.until() >= s.to.Began {
			return true
		}
		away := tr.Kind == history.TroubleDown || tr.Kind == history.TroublePaused
		return away && (tr.What == "runtime/"+o.older.nodeName() || tr.What == "runtime/"+o.younger.nodeName()) && tr.mayOverlap(s.from.Began, s.to.Ended)
	})
}

// mergeStretches joins stretches with gaps too short to be noticed, for example those between a
// pod's init containers.
func (h *clusterHistory) mergeStretches(all []stretch) []stretch {
	var merged []stretch
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].to != nil && h.minApart(merged[n-1].to, s.from) <= 2*h.clockError() {
			merged[n-1].to = later(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// checkReportedTimes checks the reported beginning and end of a window.
func (h *clusterHistory) checkReportedTimes(o overlap, reported history.Window, e *history.Event, t *tally) {
	beginMatches, endMatches := false, reported.End == nil
	for _, s := range o.possibleTimes() {
		beginMatches = beginMatches || h.mayHaveShown(reported.Begin, s.from)
		// A controller that is paused or cut off notices an end late. A paused runtime finishes its
		// action right after the pause, and records it as done before.
		endMatches = endMatches || s.to == nil || h.mayHaveShown(*reported.End, s.to) ||
			slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
				return tr.mayOverlap(s.to.Began-int64(time.Second), e.Ended)
			})
	}
	t.expect(beginMatches, "a split-brain window was reported with another beginning", o.evidence(e)...)
	t.expect(endMatches, "users were told another end of a split-brain window", o.evidence(e)...)
}

// mayHaveOverlapped reports whether two incarnations may have run at the same time, perhaps too
// briefly to be measured.
func (h *clusterHistory) mayHaveOverlapped(pair [2]string) bool {
	older, younger := h.pods[pair[0]], h.pods[pair[1]]
	if older == nil || younger == nil || older.firstStart() == nil || younger.firstStart() == nil {
		return false
	}
	begin := later(older.firstStart(), younger.firstStart())
	return !slices.ContainsFunc([]*podHistory{older, younger}, func(pod *podHistory) bool {
		gone := pod.lastExit()
		return gone != nil && gone.Ended+recordDelay < begin.Began
	})
}

// controllersRanThrough reports whether one boot of the controllers, which report windows, recorded
// something before and after.
func (h *clusterHistory) controllersRanThrough(from, to *history.Event) bool {
	boots := map[string]int{}
	for _, e := range h.events {
		if e.Process == controllers && before(e, from) {
			boots[string(e.Boot)] |= 1
		}
		if e.Process == controllers && before(to, e) {
			boots[string(e.Boot)] |= 2
		}
	}
	for _, seen := range boots {
		if seen == 3 {
			return true
		}
	}
	return false
}

// mayHaveShown reports whether the cluster's clock may have shown a time when an event was over.
func (h *clusterHistory) mayHaveShown(shows time.Time, e *history.Event) bool {
	first, last := h.clusterTime(e)
	return !shows.Before(first.Add(-h.clockError())) && !shows.After(last.Add(h.clockError()))
}

// clockError is the precision of times on the cluster's clock: a second, and its progress in half a
// second of machine time.
func (h *clusterHistory) clockError() time.Duration {
	if len(h.ticks) == 0 {
		return time.Second
	}
	first, last := h.ticks[0], h.ticks[len(h.ticks)-1]
	machine, cluster := last.Ended-first.Ended, last.Wall.Sub(first.Wall)
	if machine <= 0 {
		return time.Second
	}
	speed := math.Abs(float64(cluster) / float64(machine))
	return time.Second + time.Duration(speed*float64(500*time.Millisecond))
}
