package guarantees

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

const (
	// minGrace is the shortest grace period that a kubelet gives a container. killSlack is how much
	// later than the end of the grace period SIGKILL may come.
	minGrace  = 2 * time.Second
	killSlack = 2 * time.Second
)

// splitSignals returns the container's stop signals and SIGKILLs, as recorded before they were
// sent.
func (c *container) splitSignals() (stops, kills []*history.Event) {
	for _, e := range c.signaling {
		if fact, _ := e.Fact.(history.Signaling); fact.Signal == "SIGKILL" {
			kills = append(kills, e)
		} else {
			stops = append(stops, e)
		}
	}
	return stops, kills
}

// allContainers returns the containers of the pods that are in the history completely.
func (h *clusterHistory) allContainers() []*container {
	var all []*container
	for _, pod := range h.completePods() {
		all = append(all, pod.containers...)
	}
	return all
}

// checkPreStopHook checks K1: the stop signal waits for the preStop hook, which runs once in each
// attempt to stop the pod (KBL-35).
func checkPreStopHook(h *clusterHistory, t *tally) {
	for _, c := range h.allContainers() {
		stops, _ := c.splitSignals()
		for i, begun := range c.preStops {
			if i > 0 {
				before := c.preStops[i-1]
				// A stop for a failed probe is an attempt too; a failed attempt is recorded.
				again := slices.ContainsFunc(slices.Concat(c.pod.terms, c.pod.stuck), func(e *history.Event) bool {
					return before.Began <= e.Began && e.Began <= begun.Began
				})
				t.expect(begun.Boot != before.Boot || again, "an attempt to stop a pod ran a preStop hook twice", before, begun)
			}
			if end := endOf(begun, c.preStopEnds); end != nil {
				early := lastWithin(stops, begun, end)
				t.expect(early == nil, "a container was signaled while its preStop hook had time left", begun, early, end)
			}
		}
	}
}

// endOf returns the recorded end of a hook run; nil for none. A later attempt to stop may have
// another run.
func endOf(begun *history.Event, ends []*history.Event) *history.Event {
	for _, end := range ends {
		if end.Boot == begun.Boot && end.Ended >= begun.Ended {
			return end
		}
	}
	return nil
}

// lastWithin returns the last event between two others; nil for none.
func lastWithin(events []*history.Event, from, to *history.Event) (last *history.Event) {
	for _, e := range events {
		if from.Ended+recordDelay < e.Began && e.Ended+recordDelay < to.Ended {
			last = e
		}
	}
	return last
}

// checkStopBeforeKill checks K2: SIGKILL is preceded by the stop signal.
func checkStopBeforeKill(h *clusterHistory, t *tally) {
	for _, c := range h.allContainers() {
		stops, kills := c.splitSignals()
		if len(kills) == 0 {
			continue
		}
		t.expect(len(stops) > 0 && stops[0].Began <= kills[0].Ended || c.diedStarting(kills[0]) || c.startedAfterPlan(kills[0]),
			"a container was killed without its stop signal", append(append(c.started, c.pod.terms...), kills...)...)
	}
}

// diedStarting reports whether the container was killed during its start, when nothing could take a
// signal.
func (c *container) diedStarting(kill *history.Event) bool {
	return len(c.started) == 0 || slices.ContainsFunc(c.exits, neverRan) || kill.Began <= c.started[0].Ended+recordDelay
}

// startedAfterPlan reports whether the container began to run only after the pod's stop was
// planned. The stop does not wait for a start in progress (CRI-07).
func (c *container) startedAfterPlan(kill *history.Event) bool {
	var plan *history.Event
	for _, e := range c.pod.terms {
		if e.Began <= kill.Began {
			plan = e
		}
	}
	takes := c.startDelay()
	return plan != nil && takes > 0 && c.started[0].Began+int64(takes+killSlack) > plan.Began
}

// startDelay returns how long the container's script delays its start.
func (c *container) startDelay() time.Duration {
	for _, e := range c.created {
		fact, _ := e.Fact.(history.Create)
		_, rest, _ := strings.Cut(fact.Script, "starts after ")
		clause, _, _ := strings.Cut(rest, ",")
		if takes, err := time.ParseDuration(clause); err == nil {
			return takes
		}
	}
	return 0
}

// neverRan reports whether an exit is that of a container that never ran.
func neverRan(exit *history.Event) bool {
	fact, _ := exit.Fact.(history.Exit)
	return fact.Unstarted
}

// containerStop is the stop of a container by one runtime, by stop signal and SIGKILL, after its
// kubelet had begun to stop the pod.
type containerStop struct {
	*container

	began, term, kill *history.Event
	// shortest and longest are the bounds of the grace periods that the kubelet had seen before.
	shortest, longest time.Duration
}

// elapsed returns the time from one event to another by the machine's and the cluster's clock, the
// shorter first.
func elapsed(from, to *history.Event) (shorter, longer time.Duration) {
	machine, cluster := time.Duration(to.Ended-from.Began), to.Wall.Sub(from.Wall)
	return min(machine, cluster), max(machine, cluster)
}

// elapsed is elapsed with correction for clocks that may have been wrong: instead of the events'
// own cluster times it uses the bounds from other processes.
func (h *clusterHistory) elapsed(from, to *history.Event) (shorter, longer time.Duration) {
	if !h.clockMayBeWrong(from.Process, from.Began, to.Ended) && !h.clockMayBeWrong(to.Process, from.Began, to.Ended) {
		return elapsed(from, to)
	}
	machine := time.Duration(to.Ended - from.Began)
	return min(machine, h.minPassed(from.Began, to.Ended)), max(machine, h.maxPassed(from.Began, to.Ended))
}

func (s containerStop) evidence() []*history.Event {
	return append(append(append([]*history.Event{}, s.pod.terms...), s.preStopEnds...), s.term, s.kill)
}

// containerStops returns all container stops that can be judged.
func (h *clusterHistory) containerStops() []containerStop {
	var all []containerStop
	for _, c := range h.allContainers() {
		terms, kills := c.splitSignals()
		if len(c.pod.terms) == 0 || len(terms) == 0 || len(kills) == 0 || terms[0].Boot != kills[0].Boot || c.pod.terms[0].Began > terms[0].Ended {
			continue // the grace period of a stop before its pod's end is not recorded
		}
		s := containerStop{container: c, began: c.pod.terms[0], term: terms[0], kill: kills[0], shortest: -1}
		for _, e := range append(append([]*history.Event{}, c.pod.terms...), c.pod.seen...) {
			if e.Began > s.kill.Ended {
				continue
			}
			switch fact := e.Fact.(type) {
			case history.KubeletTerm:
				s.addGrace(fact.Grace)
			case history.KubeletSee:
				if fact.Grace != nil {
					s.addGrace(*fact.Grace)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// addGrace takes a grace period, in seconds, into account.
func (s *containerStop) addGrace(seconds int64) {
	grace := time.Duration(seconds) * time.Second
	if s.shortest < 0 || grace < s.shortest {
		s.shortest = grace
	}
	s.longest = max(s.longest, grace)
}

// checkKillNotEarly checks K3: SIGKILL never comes early. The grace period runs from when the
// kubelet begins to stop the pod. Hooks, and containers that end earlier, use it up.
func checkKillNotEarly(h *clusterHistory, t *tally) {
	for _, s := range h.containerStops() {
		_, ofPod := h.elapsed(s.began, s.kill)
		_, ofContainer := h.elapsed(s.term, s.kill)
		t.expect(ofPod+time.Duration(recordDelay) >= s.shortest && ofContainer+time.Duration(recordDelay) >= minGrace,
			"SIGKILL came before the grace period was over", s.evidence()...)
	}
}

// checkKillNotLate checks K4: SIGKILL comes when the grace period is over, unless the stop failed
// or a process of the node restarted meanwhile.
func checkKillNotLate(h *clusterHistory, t *tally) {
	for _, s := range h.containerStops() {
		if len(s.pod.stuck) > 0 || len(s.pod.terms) != 1 || h.wasDelayed(s) {
			continue
		}
		took, _ := h.elapsed(s.term, s.kill)
		t.expect(took <= max(minGrace, s.longest)+killSlack, "SIGKILL came late", s.evidence()...)
	}
}

// wasDelayed reports whether a process of the stop's node may have been paused or down meanwhile.
func (h *clusterHistory) wasDelayed(s containerStop) bool {
	_, node, _ := strings.Cut(s.kill.Process, "/")
	return slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
		return (tr.Kind == history.TroublePaused || tr.Kind == history.TroubleDown) && strings.HasSuffix(tr.What, "/"+node) &&
			tr.mayOverlap(s.began.Began, s.kill.Ended)
	})
}

// checkStopSignalOnce checks K6: a runtime sends a container its stop signal once.
func checkStopSignalOnce(h *clusterHistory, t *tally) {
	for _, c := range h.allContainers() {
		var last *history.Event
		for _, e := range c.signals {
			if fact, _ := e.Fact.(history.Signal); fact.Signal == "SIGKILL" {
				continue
			}
			t.expect(last == nil || last.Boot != e.Boot, "a container got its stop signal twice from one runtime", last, e)
			last = e
		}
	}
}

// checkNoStartAfterStop checks K7: nothing of a pod is started once the pod is being stopped.
func checkNoStartAfterStop(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		if len(pod.terms) == 0 {
			continue
		}
		var late *history.Event
		for _, c := range pod.containers {
			for _, e := range append(append([]*history.Event{}, c.created...), c.started...) {
				if e.Began > pod.terms[0].Ended+recordDelay {
					late = e
				}
			}
		}
		t.expect(late == nil, "a container was made or started after its pod's end had begun", pod.terms[0], late)
	}
}

// checkNoStartAfterEnd checks K8: a pod that has ended never runs again. A phase that others wrote
// while the kubelet was cut off ends nothing: the kubelet goes on until it hears of the phase
// (K14). Even then a sync that is stopping a container goes on, and starts the container again:
// upstream's kubelet gives SyncPod a context that nothing cancels (Kubelet.SyncPod).
func checkNoStartAfterEnd(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		end := pod.endEvent()
		if end == nil {
			continue
		}
		var late *history.Event
		for _, c := range pod.containers {
			for _, e := range c.started {
				if e.Began > end.Ended+recordDelay && (!pod.endedByOthers(e) || pod.sawBeforeSync(end, e)) {
					late = e
				}
			}
		}
		t.expect(late == nil, "a container was started after its pod had ended", end, late)
	}
}

// sawBeforeSync reports whether the pod's kubelet had seen a commit, or a later one, before an
// event, and the event is not of a sync that was stopping a container then.
func (pod *podHistory) sawBeforeSync(end, by *history.Event) bool {
	seen := pod.firstSight(end)
	return seen != nil && before(seen, by) && !pod.wasStoppingDuring(seen, by)
}

// firstSight returns when the pod's kubelet first saw a commit or a later one; nil for never.
func (pod *podHistory) firstSight(end *history.Event) *history.Event {
	ended, _ := end.Fact.(history.Commit)
	for _, e := range pod.seen {
		fact, _ := e.Fact.(history.KubeletSee)
		if parseRevision(fact.Revision) >= ended.Revision || fact.Op == "REMOVE" && e.Began >= end.Began {
			return e
		}
	}
	return nil
}

// wasStoppingDuring reports whether a container of the pod had its stop signal at one event and
// ended before another, in which the kubelet had not begun to stop the pod itself.
func (pod *podHistory) wasStoppingDuring(from, by *history.Event) bool {
	if len(pod.terms) > 0 && before(pod.terms[0], by) {
		return false
	}
	return slices.ContainsFunc(pod.containers, func(c *container) bool {
		return len(c.signaling) > 0 && before(c.signaling[0], from) && len(c.exits) > 0 && from.Ended <= c.exits[0].Ended && c.exits[0].Began <= by.Ended
	})
}

// endEvent returns the commit that made the pod's phase terminal, or the pod's final delete.
func (pod *podHistory) endEvent() *history.Event {
	for _, c := range pod.commits {
		if hasEnded(c) && c.recorded {
			return c.Event
		}
	}
	if len(pod.finals) > 0 {
		return pod.finals[0]
	}
	return nil
}

// checkOneNode checks K9: all containers of one UID are on one node.
func checkOneNode(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		var first *history.Event
		for _, c := range pod.containers {
			for _, e := range append(append([]*history.Event{}, c.created...), c.started...) {
				if first == nil {
					first = e
				}
				t.expect(e.Process == first.Process, "one pod was on two nodes", first, e)
			}
		}
	}
}

// checkOneRun checks K15: a container is started again only after its last run has ended.
func checkOneRun(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		last := map[string]*container{}
		for _, c := range pod.startedContainers() {
			before := last[c.ContainerName]
			alone := before == nil || len(before.exits) > 0 && before.exits[0].Began <= c.started[0].Ended+recordDelay
			t.expect(alone, "a container was started beside one of its name that ran", append(startEvents(before), c.started[0])...)
			last[c.ContainerName] = c
		}
	}
}

func startEvents(c *container) []*history.Event {
	if c == nil {
		return nil
	}
	return slices.Clone(c.started)
}

// startedContainers returns the pod's started containers in the order of their starts.
func (pod *podHistory) startedContainers() []*container {
	started := slices.DeleteFunc(slices.Clone(pod.containers), func(c *container) bool { return len(c.started) == 0 })
	slices.SortStableFunc(started, func(a, b *container) int { return cmp.Compare(a.started[0].Began, b.started[0].Began) })
	return started
}

// checkStatusReports checks K10: no terminal phase is reported while a container runs, and each
// container's reported state is right.
func checkStatusReports(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		pod.checkContainerStates(h, t)
		for _, e := range pod.statuses {
			fact, _ := e.Fact.(history.KubeletStatus)
			if phaseRank(fact.Phase) != terminalRank {
				continue
			}
			for _, c := range pod.containers {
				if len(c.started) > 0 && before(c.started[0], e) && !pod.endedByOthers(e) && !pod.wasRejected(e) {
					t.expect(c.mayHaveEndedBy(e), "a pod was reported ended while one of its containers ran", c.started[0], e, c.lastEvent())
				}
			}
		}
	}
}

// endedByOthers reports whether another client than a kubelet had given the pod a terminal phase,
// for example the pod garbage collector for a lost node. The kubelet keeps that phase.
func (pod *podHistory) endedByOthers(by *history.Event) bool {
	return slices.ContainsFunc(pod.commits, func(c *commit) bool {
		return phaseRank(c.Phase) == terminalRank && (c.replaced == nil || phaseRank(c.replaced.Phase) != terminalRank) &&
			c.Began <= by.Ended && c.operation != nil && c.operation.node == ""
	})
}

// wasRejected reports whether a restarted kubelet's first report of a pod from an earlier boot is a
// terminal phase. The kubelet no longer accepts the pod (KBL-09), and ends it only afterwards.
func (pod *podHistory) wasRejected(by *history.Event) bool {
	older := false
	for _, e := range pod.statuses {
		fact, _ := e.Fact.(history.KubeletStatus)
		if e.Boot == by.Boot {
			return older && phaseRank(fact.Phase) == terminalRank
		}
		older = older || e.Process == by.Process
	}
	return false
}

// checkTeardownOrder checks K13: containers end before sidecars are stopped, and before volumes and
// sandboxes are removed. The last phase is reported before the final delete.
func checkTeardownOrder(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		pod.checkSidecarsLast(h, t)
		for _, c := range pod.containers {
			if len(c.started) > 0 && len(c.exits) > 0 {
				c.checkTeardownAfterExit(t)
			}
		}
		if len(pod.finals) > 0 {
			var reported *history.Event
			for _, e := range pod.statuses {
				if fact, _ := e.Fact.(history.KubeletStatus); phaseRank(fact.Phase) == terminalRank && e.Began <= pod.finals[0].Ended {
					reported = e
				}
			}
			end := pod.endEvent()
			t.expect(reported != nil || end != nil && end.Began <= pod.finals[0].Ended && end != pod.finals[0],
				"the final delete came before the last phase was reported", pod.finals[0])
		}
	}
}

// checkTeardownAfterExit checks that volumes and sandbox were removed only after the container had
// ended.
func (c *container) checkTeardownAfterExit(t *tally) {
	exit := c.exits[len(c.exits)-1]
	for _, e := range append(append([]*history.Event{}, c.pod.mounts...), c.pod.sandboxes...) {
		if _, mounted := e.Fact.(history.Mount); !mounted && before(c.started[0], e) {
			t.expect(e.Ended+recordDelay >= exit.Began, "a volume or a sandbox was taken from under a container", c.started[0], e, exit)
		}
	}
}
