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

// trouble is an injected fault, a cut, a clock change, a stop or a pause, with its beginning and
// end.
type trouble struct {
	history.Trouble
	begin *history.Event
	// end is nil if the trouble was not over when the history ended.
	end *history.Event
	// fault and cut hold the trouble's arguments.
	fault fault.Fault
	cut   partition.Cut
}

// since returns the first monotonic time at which the trouble may have been in force, and until the
// last.
func (tr *trouble) since() int64 { return tr.begin.Began }

func (tr *trouble) until() int64 {
	if tr.end == nil {
		return math.MaxInt64
	}
	return tr.end.Ended
}

// surelyOverAt returns the monotonic time at which the trouble may have begun to end.
func (tr *trouble) surelyOverAt() int64 {
	if tr.end == nil {
		return math.MaxInt64
	}
	return tr.end.Began
}

// mayOverlap reports whether the trouble may have been in force between two times.
func (tr *trouble) mayOverlap(from, to int64) bool { return tr.since() <= to && tr.until() >= from }

// findTroubles returns all troubles by their beginnings. A pause may be among them twice: as it was
// requested, and as its process noticed it.
func (h *clusterHistory) findTroubles() []*trouble {
	var all, open []*trouble
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.FaultWatch:
			open = slices.DeleteFunc(open, func(tr *trouble) bool {
				lost := slices.Contains(fact.Kinds, tr.Kind) && tr.begin.Boot != e.Boot
				if lost {
					tr.end = e
				}
				return lost
			})
		case history.FaultBegin:
			if !slices.ContainsFunc(open, func(tr *trouble) bool { return tr.Equal(fact.Trouble) }) {
				open = append(open, parseTrouble(fact.Trouble, e))
				all = append(all, open[len(open)-1])
			}
		case history.FaultEnd:
			at := slices.IndexFunc(open, func(tr *trouble) bool { return tr.Equal(fact.Trouble) })
			if at >= 0 {
				open[at].end = e
				open = slices.Delete(open, at, at+1)
			}
		case history.Stall: // others see a stall like a pause
			all = append(all, &trouble{Trouble: history.Trouble{Kind: history.TroublePaused, What: e.Process}, begin: e, end: e})
		}
	}
	slices.SortStableFunc(all, func(a, b *trouble) int { return cmp.Compare(a.since(), b.since()) })
	return all
}

// parseTrouble decodes a trouble's arguments. What cannot be decoded stays empty.
func parseTrouble(t history.Trouble, begin *history.Event) *trouble {
	tr := &trouble{Trouble: t, begin: begin}
	switch t.Kind {
	case history.TroubleFault:
		_ = json.Unmarshal(t.Arguments, &tr.fault)
	case history.TroubleCut:
		_ = json.Unmarshal(t.Arguments, &tr.cut)
	case history.TroubleClock, history.TroubleDown, history.TroublePaused:
	}
	return tr
}

// isFullCut reports whether the trouble is a cut that lets nothing pass, either way, at any time.
func (tr *trouble) isFullCut() bool {
	spec := tr.cut.Spec
	if tr.Kind != history.TroubleCut || len(spec.Only) > 0 || spec.Flap != (partition.Flap{}) || spec.Manner == partition.Carry {
		return false
	}
	if spec.Manner == partition.Reset {
		return true
	}
	slow := spec.Latency.Duration > 0 || spec.Jitter.Duration > 0 || spec.Bandwidth > 0
	return (spec.Direction == "" || spec.Direction == partition.Both) && (spec.Manner == partition.Hold || !slow)
}

// findTroubleCoverage returns the time from which troubles of all kinds are recorded; false if some
// kind never is.
func (h *clusterHistory) findTroubleCoverage() (from int64, all bool) {
	since := make(map[history.TroubleKind]int64)
	for e, fact := range factsOf[history.FaultWatch](h) {
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
	return max(from, h.completeFrom), len(since) == kinds
}

// calmPeriod is a fault-free time. It ends when a trouble begins or the history ends.
type calmPeriod struct {
	// from and to are monotonic times.
	from, to int64
	// began is the event that ended the last trouble; nil at the beginning of the history.
	began *history.Event
}

// findCalmPeriods returns all calm periods, in order.
func (h *clusterHistory) findCalmPeriods() []calmPeriod {
	from, all := h.troubleCoverage()
	if !all {
		return nil
	}
	var found []calmPeriod
	var began *history.Event
	for _, tr := range h.troubles {
		if tr.since()-recordDelay > from {
			found = append(found, calmPeriod{from, tr.since() - recordDelay, began})
		}
		if tr.until() > from {
			from, began = tr.until(), tr.end
		}
	}
	if h.latest > from {
		found = append(found, calmPeriod{from, h.latest, began})
	}
	return found
}

// clockMayHaveChanged reports whether a process' clock may have become wrong, or right again,
// between two times.
func (h *clusterHistory) clockMayHaveChanged(process string, from, to int64) bool {
	between := func(at int64) bool { return from-int64(time.Second) <= at && at <= to+int64(time.Second) }
	return slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
		return tr.skewsClockOf(process) && (between(tr.since()) || between(tr.until()))
	})
}

// clockMayBeWrong reports whether a process' clock may have been wrong between two times.
func (h *clusterHistory) clockMayBeWrong(process string, from, to int64) bool {
	return slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
		return tr.skewsClockOf(process) && tr.mayOverlap(from-int64(time.Second), to+int64(time.Second))
	})
}

// skewsClockOf reports whether the trouble is a fault that skews a process' clock.
func (tr *trouble) skewsClockOf(process string) bool {
	return tr.Kind == history.TroubleFault && tr.fault.Spec.Matches(fault.ClockSkew, fault.Attributes{Process: process, Node: nodeOf(process)})
}

// isLate reports whether more than a grace period and a slack has passed between two times on the
// cluster's clock. The slack must have passed on the machine's clock too, because the machine does
// the work however fast the cluster's clock runs.
func (h *clusterHistory) isLate(from, to int64, grace, slack time.Duration) bool {
	return to-from > int64(slack) && h.minPassed(from, to) > grace+slack
}

// minPassed returns how much cluster time has passed, at least, between two monotonic times.
func (h *clusterHistory) minPassed(from, to int64) time.Duration {
	first, _ := h.firstTickFrom(from)
	last, found := h.firstTickFrom(to)
	if !found {
		last--
	}
	if first > last || first >= len(h.ticks) {
		return 0
	}
	return h.ticks[last].Wall.Sub(h.ticks[first].Wall)
}

// maxPassed returns how much cluster time has passed, at most, between two monotonic times.
func (h *clusterHistory) maxPassed(from, to int64) time.Duration {
	first, found := h.firstTickFrom(from)
	if !found {
		first--
	}
	last, _ := h.firstTickFrom(to)
	if first < 0 || last >= len(h.ticks) {
		return math.MaxInt64
	}
	return h.ticks[last].Wall.Sub(h.ticks[first].Wall)
}

// clusterTime returns the earliest and the latest time that the cluster's clock may have shown when
// an event was over. Both are the event's own time, unless the clock of its process may have been
// wrong.
func (h *clusterHistory) clusterTime(e *history.Event) (first, last time.Time) {
	if !h.clockMayBeWrong(e.Process, e.Began, e.Ended) {
		return e.Wall, e.Wall
	}
	at, exact := h.firstTickFrom(e.Ended)
	last = time.Unix(math.MaxInt32, 0)
	if at < len(h.ticks) {
		last = h.ticks[at].Wall
	}
	switch {
	case exact:
		first = last
	case at > 0:
		first = h.ticks[at-1].Wall
	}
	return first, last
}

// minApart returns how much cluster time has passed, at least, from one event to another.
func (h *clusterHistory) minApart(from, to *history.Event) time.Duration {
	_, first := h.clusterTime(from)
	last, _ := h.clusterTime(to)
	return last.Sub(first)
}

// firstTickFrom returns the index of the first tick at or after a time. exact reports that the tick
// is at that time.
func (h *clusterHistory) firstTickFrom(at int64) (place int, exact bool) {
	return slices.BinarySearchFunc(h.ticks, at, func(e *history.Event, at int64) int { return cmp.Compare(e.Ended, at) })
}

// findTicks returns the events of processes with clocks that were always right.
func (h *clusterHistory) findTicks() []*history.Event {
	wrong := map[string]bool{"supervisor": true} // the supervisor does not hear of clock changes
	for process := range h.boots {
		wrong[process] = wrong[process] || h.clockMayBeWrong(process, 0, math.MaxInt64-int64(time.Second))
	}
	ticks := slices.DeleteFunc(slices.Clone(h.events), func(e *history.Event) bool { return wrong[e.Process] })
	slices.SortStableFunc(ticks, func(a, b *history.Event) int { return cmp.Compare(a.Ended, b.Ended) })
	return ticks
}

// environment describes the conditions that the cluster was in.
type environment struct {
	// troubles are sorted by their beginnings.
	troubles []*trouble
	// ticks show the cluster's time, sorted by their ends.
	ticks []*history.Event
	// kubelets holds the nodes that have a kubelet.
	kubelets map[string]bool
}

// findEnvironment finds them.
func (h *clusterHistory) findEnvironment() {
	h.troubles = h.findTroubles()
	h.ticks = h.findTicks()
	h.kubelets = map[string]bool{}
	for _, boot := range factsOf[history.KubeletBoot](h) {
		h.kubelets[boot.Node] = true
	}
}
