package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// checkSidecarsLast checks K13 for sidecars. A sidecar gets its stop signal when the containers
// that it must outlive have ended (KBL-50), or when waiting for them has used up its grace period
// (KBL-51). A sidecar that is stopped before its pod's end, for a probe or with its sandbox, waits
// for nothing.
func (pod *podHistory) checkSidecarsLast(h *clusterHistory, t *tally) {
	spec := pod.podSpec()
	for _, c := range pod.containers {
		place := slices.Index(spec.Sidecars, c.ContainerName)
		stops, _ := c.splitSignals()
		if place < 0 || len(stops) == 0 {
			continue
		}
		// A runtime that was unreachable may do late what an earlier attempt asked for. Any attempt
		// with a used-up grace period justifies the signal.
		plan, waits := pod.stopPlan(h, stops[0])
		if plan == nil || !waits {
			continue
		}
		first := slices.Concat(spec.Regular, spec.Sidecars[place+1:])
		for _, other := range pod.containers {
			if slices.Contains(first, other.ContainerName) && other.surelyRanAt(plan) {
				t.expect(other.mayHaveEndedBy(stops[0]), "a sidecar was stopped before a container that it is to outlive had ended", plan, stops[0], other.lastEvent())
			}
		}
	}
}

// podSpec returns the pod's spec from its commits. The containers of a pod never change.
func (pod *podHistory) podSpec() history.PodSpec {
	for _, c := range pod.commits {
		if len(c.Sidecars) > 0 {
			return c.PodSpec
		}
	}
	return history.PodSpec{}
}

// stopPlan returns the last attempt to stop the pod that began before a signal; nil for none. waits
// is false if an attempt's grace period was used up by then, or nearly. A pod that its kubelet
// knows only from the runtime has one second, and its containers no order (KBL-73).
func (pod *podHistory) stopPlan(h *clusterHistory, signal *history.Event) (plan *history.Event, waits bool) {
	waits = true
	for _, e := range pod.terms {
		if e.Began > signal.Began {
			continue
		}
		plan = e
		fact, _ := e.Fact.(history.KubeletTerm)
		_, waited := h.elapsed(e, signal)
		waits = waits && waited+minGrace < time.Duration(fact.Grace)*time.Second
	}
	return plan, waits
}

// surelyRanAt reports whether a stop attempt finds the container running, unless it has ended. It
// had been started a while before, so that its runtime had reported it.
func (c *container) surelyRanAt(plan *history.Event) bool {
	return len(c.started) > 0 && c.started[0].Ended+int64(killSlack) <= plan.Began && !c.startedAfterPlan(plan)
}
