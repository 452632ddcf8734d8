package guarantees

import (
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// statusLag is how long a status may report a container that has ended as running: the next
// listing, the pod's worker and the report have to catch up.
const statusLag = 30 * time.Second

// checkContainerStates checks K10 for containers. None is reported ended before it has, or with
// another exit code. None is reported running before it was started, or long after it has ended.
func (pod *podHistory) checkContainerStates(h *clusterHistory, t *tally) {
	for _, e := range pod.statuses {
		fact, _ := e.Fact.(history.KubeletStatus)
		for _, said := range fact.Containers {
			c := pod.containersByID[said.Container]
			switch {
			case c == nil: // its creation may have been lost with its runtime's history
			case said.State == "terminated":
				c.checkReportedEnd(said.Code, e, t)
			case said.State == "running":
				c.checkReportedRunning(e, h, t)
			}
		}
	}
}

// checkReportedEnd checks a status that reports that the container ended with a code.
func (c *container) checkReportedEnd(code int32, status *history.Event, t *tally) {
	t.expect(c.mayHaveEndedBy(status) || len(c.started) == 0, "a running container was reported as ended", c.lastEvent(), status)
	if exit := c.onlyExit(); exit != nil {
		fact, _ := exit.Fact.(history.Exit)
		t.expect(fact.Code == code || c.mayBeReportedUnknown(code, status), "a container was reported ended with another exit code", exit, status)
	}
}

// codeUnknown is the exit code that a kubelet reports of a container whose end it does not know.
const codeUnknown = 137

// mayBeReportedUnknown reports whether a kubelet may report that the container ended with
// codeUnknown, although it knew another code. If others end the pod while the container waits for
// its restart, the kubelet reports the waiting container as ContainerStatusUnknown (upstream's
// manager.TerminatePod).
func (c *container) mayBeReportedUnknown(code int32, status *history.Event) bool {
	return code == codeUnknown && c.pod.endedByOthers(status) && len(c.pod.terms) > 0 && before(c.onlyExit(), c.pod.terms[0])
}

// checkReportedRunning checks a status that reports that the container runs.
func (c *container) checkReportedRunning(status *history.Event, h *clusterHistory, t *tally) {
	started := len(c.started) > 0 && c.started[0].Began <= status.Ended+recordDelay
	t.expect(started || len(c.created) == 0 || c.runtimeIsSilentSince(h, status), "a container was reported running that had not been started", c.lastEvent(), status)
	if exit := c.onlyExit(); exit != nil && h.isCalm(exit.Began, status.Ended) {
		since := max(exit.Ended, c.pod.statusRefusedUntil(h, status), c.stopEndsAt(h, status))
		t.expect(!h.isLate(since, status.Began, statusLag, 0), "a container was reported running long after it had ended", exit, status)
	}
}

// statusRefusedUntil returns when a webhook last refused the kubelet's status of the pod before one
// was accepted; 0 for never. The refused status may have been pending all the time.
func (pod *podHistory) statusRefusedUntil(h *clusterHistory, status *history.Event) int64 {
	until := int64(0)
	node := nodeOf(status.Process)
	for _, o := range h.operations {
		if o.node == node && o.Resource == podResource && o.Subresource == "status" && o.Key == pod.name && o.deniedByWebhook() {
			for _, answer := range o.returns {
				if answer.Ended <= status.Began {
					until = max(until, answer.Ended)
				}
			}
		}
	}
	return until
}

// stopEndsAt returns until when the kubelet may have been busy with the stop of the pod during
// which it reported a status. It looks at the containers when it begins, and reports what it saw
// until the last of them has ended (KBL-30). The result is 0 if the container had ended too long
// before.
func (c *container) stopEndsAt(h *clusterHistory, status *history.Event) int64 {
	var began *history.Event
	for _, e := range c.pod.terms {
		if e.Boot == status.Boot && e.Began <= status.Began {
			began = e
		}
	}
	last := c.pod.lastExit()
	switch {
	case began == nil || h.isLate(c.onlyExit().Ended, began.Began, statusLag, 0):
		return 0
	case last == nil:
		return status.Began
	}
	return last.Ended
}

// runtimeIsSilentSince reports whether the container's runtime recorded nothing after a status: it
// may have died before it recorded a start.
func (c *container) runtimeIsSilentSince(h *clusterHistory, status *history.Event) bool {
	return !slices.ContainsFunc(h.boots[c.created[0].Process], func(i *processBoot) bool { return i.lastBegan > status.Ended })
}

// onlyExit returns the container's exit; nil unless there is exactly one.
func (c *container) onlyExit() *history.Event {
	if len(c.exits) != 1 {
		return nil
	}
	return c.exits[0]
}

// isCalm reports whether no trouble was in force between two times, as far as is known.
func (h *clusterHistory) isCalm(from, to int64) bool {
	_, all := h.troubleCoverage()
	return all && !slices.ContainsFunc(h.troubles, func(tr *trouble) bool { return tr.mayOverlap(from, to) })
}

// checkRuntimeListed checks K11: the same boot listed the runtime's containers before the final
// delete, and none of the pod's ran.
func checkRuntimeListed(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		for _, e := range pod.finals {
			fact, _ := e.Fact.(history.KubeletFinal)
			if fact.Listed != nil {
				t.expect(*fact.Listed, "a kubelet removed a pod before it had listed its runtime's containers", e)
				t.expect(fact.Left == 0, "a kubelet removed a pod while its runtime had a running container of it", e)
			}
		}
	}
}

// checkVolumePaths checks K12: volumes are kept under the UID of their pod. Directories and
// containers, whose logs are under their ids, belong to one pod only.
func checkVolumePaths(h *clusterHistory, t *tally) {
	owner := map[string]*history.Event{}
	holds := func(e *history.Event, what, uid string) {
		if first := owner[what]; first == nil {
			owner[what] = e
		} else {
			t.expect(uidOf(first) == uid, "a path or a container belongs to two pods", first, e)
		}
	}
	for _, e := range h.events {
		path, uid := "", uidOf(e)
		switch fact := e.Fact.(type) {
		case history.Mount:
			path = fact.Path
		case history.Unmount:
			path = fact.Path
		case history.Create:
			holds(e, e.Process+" container "+fact.Container, uid)
		}
		if path != "" {
			t.expect(slices.Contains(strings.Split(path, "/"), uid), "a volume is not kept under its pod's uid", e)
			holds(e, nodeOf(e.Process)+" "+path, uid)
		}
	}
}

// uidOf returns the pod UID that a mount or a container belongs to.
func uidOf(e *history.Event) string {
	switch fact := e.Fact.(type) {
	case history.Mount:
		return fact.UID
	case history.Unmount:
		return fact.UID
	case history.Create:
		return fact.UID
	}
	return ""
}

// checkShortenedGrace checks K5: a shortened grace period holds from the next attempt to stop the
// pod (KBL-18).
func checkShortenedGrace(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		for _, term := range pod.terms {
			shortest := int64(-1)
			var seen *history.Event
			for _, e := range pod.seen {
				fact, _ := e.Fact.(history.KubeletSee)
				if fact.Grace == nil || !before(e, term) || e.Boot != term.Boot {
					continue
				}
				if grace := max(1, *fact.Grace); shortest < 0 || grace < shortest {
					shortest, seen = grace, e
				}
			}
			if shortest < 0 {
				continue
			}
			fact, _ := term.Fact.(history.KubeletTerm)
			t.expect(fact.Grace <= shortest, "a pod was stopped with a longer grace period than its kubelet had seen", seen, term)
		}
	}
}
