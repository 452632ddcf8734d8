package guarantees

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// least is the shortest grace period that a kubelet gives a container, and soon how much
// later than it must SIGKILL may come.
const (
	// minGrace is the shortest grace period that a kubelet gives a container. killSlack is how much
	// later than the end of the grace period SIGKILL may come.
	least = 2 * time.Second
	soon  = 2 * time.Second
)

// splitSignals returns the container's stop signals and SIGKILLs, as recorded before they were
// sent.
func (c *container) sortSignals() (stops, kills []*history.Event) {
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
func (p *past) containers() []*container {
	var all []*container
	for _, one := range p.lives() {
		all = append(all, one.containers...)
	}
	return all
}

// checkPreStopHook checks K1: the stop signal waits for the preStop hook, which runs once in each
// attempt to stop the pod (KBL-35).
func hooked(p *past, t *trial) {
	for _, c := range p.containers() {
		stops, _ := c.sortSignals()
		for i, begun := range c.preStops {
			if i > 0 {
				before := c.preStops[i-1]
				// To stop a container for a probe is an attempt, too: one that failed is told of.
				again := slices.ContainsFunc(slices.Concat(c.pod.terms, c.pod.stuck), func(e *history.Event) bool {
					return before.Began <= e.Began && e.Began <= begun.Began
				})
				t.expect(begun.Boot != before.Boot || again, "an attempt to stop a pod ran a preStop hook twice", before, begun)
			}
			if end := endOf(begun, c.preStopEnds); end != nil {
				early := within(stops, begun, end)
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
func within(events []*history.Event, from, to *history.Event) (last *history.Event) {
	for _, e := range events {
		if from.Ended+eps < e.Began && e.Ended+eps < to.Ended {
			last = e
		}
	}
	return last
}

// checkStopBeforeKill checks K2: SIGKILL is preceded by the stop signal.
func warned(p *past, t *trial) {
	for _, c := range p.containers() {
		stops, kills := c.sortSignals()
		if len(kills) == 0 {
			continue
		}
		t.expect(len(stops) > 0 && stops[0].Began <= kills[0].Ended || c.startedLate(kills[0]) || c.ranLate(kills[0]),
			"a container was killed without its stop signal", append(append(c.started, c.pod.terms...), kills...)...)
	}
}

// diedStarting reports whether the container was killed during its start, when nothing could take a
// signal.
func (c *container) startedLate(kill *history.Event) bool {
	return len(c.started) == 0 || slices.ContainsFunc(c.exits, unstarted) || kill.Began <= c.started[0].Ended+eps
}

// startedAfterPlan reports whether the container began to run only after the pod's stop was
// planned. The stop does not wait for a start in progress (CRI-07).
func (c *container) ranLate(kill *history.Event) bool {
	var plan *history.Event
	for _, e := range c.pod.terms {
		if e.Began <= kill.Began {
			plan = e
		}
	}
	takes := c.startTakes()
	return plan != nil && takes > 0 && c.started[0].Began+int64(takes+soon) > plan.Began
}

// startDelay returns how long the container's script delays its start.
func (c *container) startTakes() time.Duration {
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
func unstarted(exit *history.Event) bool {
	fact, _ := exit.Fact.(history.Exit)
	return fact.Unstarted
}

// containerStop is the stop of a container by one runtime, by stop signal and SIGKILL, after its
// kubelet had begun to stop the pod.
type stop struct {
	*container

	began, term, kill *history.Event
	// shortest and longest are the bounds of the grace periods that the kubelet had seen before.
	shortest, longest time.Duration
}

// elapsed returns the time from one event to another by the machine's and the cluster's clock, the
// shorter first.
func between(from, to *history.Event) (shorter, longer time.Duration) {
	machine, cluster := time.Duration(to.Ended-from.Began), to.Wall.Sub(from.Wall)
	return min(machine, cluster), max(machine, cluster)
}

// elapsed is elapsed with correction for clocks that may have been wrong: instead of the events'
// own cluster times it uses the bounds from other processes.
func (p *past) between(from, to *history.Event) (shorter, longer time.Duration) {
	if !p.skewed(from.Process, from.Began, to.Ended) && !p.skewed(to.Process, from.Began, to.Ended) {
		return between(from, to)
	}
	machine := time.Duration(to.Ended - from.Began)
	return min(machine, p.passed(from.Began, to.Ended)), max(machine, p.passedAtMost(from.Began, to.Ended))
}

func (s stop) against() []*history.Event {
	return append(append(append([]*history.Event{}, s.pod.terms...), s.preStopEnds...), s.term, s.kill)
}

// containerStops returns all container stops that can be judged.
func (p *past) stops() []stop {
	var all []stop
	for _, c := range p.containers() {
		terms, kills := c.sortSignals()
		if len(c.pod.terms) == 0 || len(terms) == 0 || len(kills) == 0 || terms[0].Boot != kills[0].Boot || c.pod.terms[0].Began > terms[0].Ended {
			continue // one that was signaled before its pod's end is stopped with a grace period that is not told
		}
		s := stop{container: c, began: c.pod.terms[0], term: terms[0], kill: kills[0], shortest: -1}
		for _, e := range append(append([]*history.Event{}, c.pod.terms...), c.pod.seen...) {
			if e.Began > s.kill.Ended {
				continue
			}
			switch fact := e.Fact.(type) {
			case history.KubeletTerm:
				s.see(fact.Grace)
			case history.KubeletSee:
				if fact.Grace != nil {
					s.see(*fact.Grace)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// addGrace takes a grace period, in seconds, into account.
func (s *stop) see(seconds int64) {
	grace := time.Duration(seconds) * time.Second
	if s.shortest < 0 || grace < s.shortest {
		s.shortest = grace
	}
	s.longest = max(s.longest, grace)
}

// checkKillNotEarly checks K3: SIGKILL never comes early. The grace period runs from when the
// kubelet begins to stop the pod. Hooks, and containers that end earlier, use it up.
func patient(p *past, t *trial) {
	for _, s := range p.stops() {
		_, ofPod := p.between(s.began, s.kill)
		_, ofContainer := p.between(s.term, s.kill)
		t.expect(ofPod+time.Duration(eps) >= s.shortest && ofContainer+time.Duration(eps) >= least,
			"SIGKILL came before the grace period was over", s.against()...)
	}
}

// checkKillNotLate checks K4: SIGKILL comes when the grace period is over, unless the stop failed
// or a process of the node restarted meanwhile.
func punctual(p *past, t *trial) {
	for _, s := range p.stops() {
		if len(s.pod.stuck) > 0 || len(s.pod.terms) != 1 || p.heldUp(s) {
			continue
		}
		took, _ := p.between(s.term, s.kill)
		t.expect(took <= max(least, s.longest)+soon, "SIGKILL came late", s.against()...)
	}
}

// wasDelayed reports whether a process of the stop's node may have been paused or down meanwhile.
func (p *past) heldUp(s stop) bool {
	_, node, _ := strings.Cut(s.kill.Process, "/")
	return slices.ContainsFunc(p.troubles, func(o *ordeal) bool {
		return (o.Kind == history.TroublePaused || o.Kind == history.TroubleDown) && strings.HasSuffix(o.What, "/"+node) &&
			o.touches(s.began.Began, s.kill.Ended)
	})
}

// checkStopSignalOnce checks K6: a runtime sends a container its stop signal once.
func onceSignaled(p *past, t *trial) {
	for _, c := range p.containers() {
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
func final(p *past, t *trial) {
	for _, one := range p.lives() {
		if len(one.terms) == 0 {
			continue
		}
		var late *history.Event
		for _, c := range one.containers {
			for _, e := range append(append([]*history.Event{}, c.created...), c.started...) {
				if e.Began > one.terms[0].Ended+eps {
					late = e
				}
			}
		}
		t.expect(late == nil, "a container was made or started after its pod's end had begun", one.terms[0], late)
	}
}

// checkNoStartAfterEnd checks K8: a pod that has ended never runs again. A phase that others wrote
// while the kubelet was cut off ends nothing: the kubelet goes on until it hears of the phase
// (K14).
func dead(p *past, t *trial) {
	for _, one := range p.lives() {
		end := one.end()
		if end == nil {
			continue
		}
		var late *history.Event
		for _, c := range one.containers {
			for _, e := range c.started {
				if e.Began > end.Ended+eps && (!one.endedByOthers(e) || one.heard(end, e)) {
					late = e
				}
			}
		}
		t.expect(late == nil, "a container was started after its pod had ended", end, late)
	}
}

// kubeletSaw reports whether the pod's kubelet had seen a commit, or a later one, before an event.
func (one *pod) heard(end, by *history.Event) bool {
	ended, _ := end.Fact.(history.Commit)
	return slices.ContainsFunc(one.seen, func(e *history.Event) bool {
		fact, _ := e.Fact.(history.KubeletSee)
		return before(e, by) && (number(fact.Revision) >= ended.Revision || fact.Op == "REMOVE" && e.Began >= end.Began)
	})
}

// endEvent returns the commit that made the pod's phase terminal, or the pod's final delete.
func (one *pod) end() *history.Event {
	for _, c := range one.commits {
		if ended(c) && c.recorded {
			return c.Event
		}
	}
	if len(one.finals) > 0 {
		return one.finals[0]
	}
	return nil
}

// checkOneNode checks K9: all containers of one UID are on one node.
func oneNode(p *past, t *trial) {
	for _, one := range p.lives() {
		var first *history.Event
		for _, c := range one.containers {
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
func oneRun(p *past, t *trial) {
	for _, one := range p.lives() {
		last := map[string]*container{}
		for _, c := range one.inOrder() {
			before := last[c.Called]
			alone := before == nil || len(before.exits) > 0 && before.exits[0].Began <= c.started[0].Ended+eps
			t.expect(alone, "a container was started beside one of its name that ran", append(startsOf(before), c.started[0])...)
			last[c.Called] = c
		}
	}
}

func startsOf(c *container) []*history.Event {
	if c == nil {
		return nil
	}
	return slices.Clone(c.started)
}

// startedContainers returns the pod's started containers in the order of their starts.
func (one *pod) inOrder() []*container {
	started := slices.DeleteFunc(slices.Clone(one.containers), func(c *container) bool { return len(c.started) == 0 })
	slices.SortStableFunc(started, func(a, b *container) int { return cmp.Compare(a.started[0].Began, b.started[0].Began) })
	return started
}

// checkStatusReports checks K10: no terminal phase is reported while a container runs, and each
// container's reported state is right.
func truthful(p *past, t *trial) {
	for _, one := range p.lives() {
		one.statesTold(p, t)
		for _, e := range one.statuses {
			fact, _ := e.Fact.(history.KubeletStatus)
			if rank(fact.Phase) != terminal {
				continue
			}
			for _, c := range one.containers {
				if len(c.started) > 0 && before(c.started[0], e) && !one.endedByOthers(e) && !one.rejected(e) {
					t.expect(c.overBy(e), "a pod was said to have ended while a container of it ran", c.started[0], e, c.last())
				}
			}
		}
	}
}

// endedByOthers reports whether another client than a kubelet had given the pod a terminal phase,
// for example the pod garbage collector for a lost node. The kubelet keeps that phase.
func (one *pod) endedByOthers(by *history.Event) bool {
	return slices.ContainsFunc(one.commits, func(c *commit) bool {
		return rank(c.Phase) == terminal && (c.before == nil || rank(c.before.Phase) != terminal) &&
			c.Began <= by.Ended && c.by != nil && c.by.node == ""
	})
}

// wasRejected reports whether a restarted kubelet's first report of a pod from an earlier boot is a
// terminal phase. The kubelet no longer accepts the pod (KBL-09), and ends it only afterwards.
func (one *pod) rejected(by *history.Event) bool {
	older := false
	for _, e := range one.statuses {
		fact, _ := e.Fact.(history.KubeletStatus)
		if e.Boot == by.Boot {
			return older && rank(fact.Phase) == terminal
		}
		older = older || e.Process == by.Process
	}
	return false
}

// checkTeardownOrder checks K13: containers end before sidecars are stopped, and before volumes and
// sandboxes are removed. The last phase is reported before the final delete.
func tornDown(p *past, t *trial) {
	for _, one := range p.lives() {
		one.sidecarsLast(p, t)
		for _, c := range one.containers {
			if len(c.started) > 0 && len(c.exits) > 0 {
				c.undermined(t)
			}
		}
		if len(one.finals) > 0 {
			var told *history.Event
			for _, e := range one.statuses {
				if fact, _ := e.Fact.(history.KubeletStatus); rank(fact.Phase) == terminal && e.Began <= one.finals[0].Ended {
					told = e
				}
			}
			end := one.end()
			t.expect(told != nil || end != nil && end.Began <= one.finals[0].Ended && end != one.finals[0],
				"the final delete came before the last phase was told", one.finals[0])
		}
	}
}

// checkTeardownAfterExit checks that volumes and sandbox were removed only after the container had
// ended.
func (c *container) undermined(t *trial) {
	exit := c.exits[len(c.exits)-1]
	for _, e := range append(append([]*history.Event{}, c.pod.mounts...), c.pod.sandboxes...) {
		if _, mounted := e.Fact.(history.Mount); !mounted && before(c.started[0], e) {
			t.expect(e.Ended+eps >= exit.Began, "a volume or a sandbox was taken from under a container", c.started[0], e, exit)
		}
	}
}
