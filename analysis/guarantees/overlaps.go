package guarantees

import (
	"cmp"
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// overlap is a time during which containers of two incarnations of one pod name ran, as recorded by
// the runtimes.
type overlap struct {
	older, younger *podHistory
	// begin is the later of their first starts. end is the first exit after begin that left one of
	// the two without a container; nil if the history ends before.
	begin, end *history.Event
}

func (o overlap) evidence(more ...*history.Event) []*history.Event {
	return append([]*history.Event{o.older.firstStart(), o.begin, o.end}, more...)
}

// firstStart returns the first start of a container of the pod.
func (pod *podHistory) firstStart() (first *history.Event) {
	for _, c := range pod.containers {
		for _, e := range c.started {
			if first == nil || e.Began < first.Began {
				first = e
			}
		}
	}
	return first
}

// lastExit returns the exit after which none of the pod's containers ran; nil if there is none.
func (pod *podHistory) lastExit() (last *history.Event) {
	for _, c := range pod.containers {
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

// overlaps returns the overlapping pairs of each pod name, and how many pairs there were. The older
// of a pair may be started last, if its kubelet hears of it late.
func (h *clusterHistory) overlaps() (found []overlap, successors int) {
	byName := map[string][]*podHistory{}
	for _, pod := range h.completePods() {
		if pod.firstStart() != nil {
			byName[pod.name] = append(byName[pod.name], pod)
		}
	}
	for _, incarnations := range byName {
		for i, older := range incarnations {
			for _, younger := range incarnations[i+1:] {
				successors++
				if o, both := h.overlap(older, younger); both {
					found = append(found, o)
				}
			}
		}
	}
	return found, successors
}

// overlap returns when both of two incarnations ran; false if they did not overlap.
func (h *clusterHistory) overlap(older, younger *podHistory) (overlap, bool) {
	o := overlap{older: older, younger: younger, begin: later(older.firstStart(), younger.firstStart())}
	for _, pod := range []*podHistory{older, younger} {
		gone := pod.lastExit()
		if gone == nil && pod.firstStart() != o.begin && !h.runtimeWasAlive(pod, o.begin) || gone != nil && gone.Began <= o.begin.Ended+recordDelay {
			return overlap{}, false
		}
		if o.end == nil || gone != nil && gone.Ended < o.end.Ended {
			o.end = gone
		}
	}
	return o, true
}

// runtimeWasAlive reports whether the pod's runtime recorded anything after an event.
func (h *clusterHistory) runtimeWasAlive(pod *podHistory, at *history.Event) bool {
	process := pod.firstStart().Process
	for _, e := range slices.Backward(h.events) {
		if e.Process == process {
			return before(at, e)
		}
	}
	return false
}

// checkAtMostOne checks C1: two incarnations of one name run at the same time only if another
// client than its kubelet had removed the older.
func checkAtMostOne(h *clusterHistory, t *tally) {
	found, successors := h.overlaps()
	t.cases += successors - len(found)
	for _, o := range found {
		last := o.older.commits[len(o.older.commits)-1]
		t.expect(h.wasForcedBefore(o.older, o.begin), "two incarnations ran at the same time, and the older had not been forced away", o.evidence(last.Event)...)
	}
}

// wasForcedBefore reports whether another client than its kubelet had removed a pod by then.
func (h *clusterHistory) wasForcedBefore(pod *podHistory, e *history.Event) bool {
	last := pod.commits[len(pod.commits)-1]
	return last.Op == deleted && last.Began <= e.Ended+recordDelay && last.operation != nil && last.operation.node == ""
}

// stretch is a time between two events; to is nil if the history ends before.
type stretch struct{ from, to *history.Event }

// surelyRanContainers returns the pod's containers without those killed during their start:
// observers disagree on whether those ran.
func (pod *podHistory) surelyRanContainers() []*container {
	return slices.DeleteFunc(slices.Clone(pod.containers), func(c *container) bool {
		return len(c.exits) > 0 && neverRan(c.exits[len(c.exits)-1])
	})
}

// runningTimes returns the merged times during which one of the containers ran, or was starting.
func runningTimes(containers []*container) []stretch {
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

// later returns the later of two ends; nil counts as the last.
func later(a, b *history.Event) *history.Event {
	if a == nil || b == nil {
		return nil
	}
	if a.Began > b.Began {
		return a
	}
	return b
}

// possibleTimes returns the times during which containers of both ran, or were starting.
func (o overlap) possibleTimes() []stretch {
	return intersect(runningTimes(o.older.containers), runningTimes(o.younger.containers))
}

// sureTimes returns the times during which containers of both surely ran.
func (o overlap) sureTimes() []stretch {
	return intersect(runningTimes(o.older.surelyRanContainers()), runningTimes(o.younger.surelyRanContainers()))
}

// intersect returns the times that are in both lists.
func intersect(older, younger []stretch) []stretch {
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
