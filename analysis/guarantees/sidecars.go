package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// sidecarsLast checks K13 for sidecars: one gets its stop signal when what it is to outlive has
// ended (KBL-50), or when waiting for that has used up its grace period (KBL-51). One that is
// stopped before its pod's end, for a probe or with its sandbox, waits for nobody.
func (one *pod) sidecarsLast(p *past, t *trial) {
	spec := one.spec()
	for _, c := range one.containers {
		place := slices.Index(spec.Sidecars, c.Called)
		stops, _ := c.sortSignals()
		if place < 0 || len(stops) == 0 {
			continue
		}
		// A runtime that was not heard of may do late what an earlier attempt has asked of it, so
		// that any attempt whose time is up will do.
		plan, waits := one.planned(p, stops[0])
		if plan == nil || !waits {
			continue
		}
		first := slices.Concat(spec.Regular, spec.Sidecars[place+1:])
		for _, other := range one.containers {
			if slices.Contains(first, other.Called) && other.ranAt(plan) {
				t.expect(other.overBy(stops[0]), "a sidecar was stopped before a container that it is to outlive had ended", plan, stops[0], other.last())
			}
		}
	}
}

// spec is what commits tell of the pod's; its containers never change.
func (one *pod) spec() history.PodSpec {
	for _, c := range one.commits {
		if len(c.Sidecars) > 0 {
			return c.PodSpec
		}
	}
	return history.PodSpec{}
}

// planned is the last attempt to stop the pod that had begun when a container was signaled, nil
// for none, and whether no attempt's grace period was used up by then, or nearly. A pod that its
// kubelet knows only from the runtime has a second, and its containers no order (KBL-73).
func (one *pod) planned(p *past, signal *history.Event) (plan *history.Event, waits bool) {
	waits = true
	for _, e := range one.terms {
		if e.Began > signal.Began {
			continue
		}
		plan = e
		fact, _ := e.Fact.(history.KubeletTerm)
		_, waited := p.between(e, signal)
		waits = waits && waited+least < time.Duration(fact.Grace)*time.Second
	}
	return plan, waits
}

// ranAt reports whether an attempt to stop the pod finds the container running, unless it has
// ended: it had been started a while before, so that its runtime had told of it.
func (c *container) ranAt(plan *history.Event) bool {
	return len(c.started) > 0 && c.started[0].Ended+int64(soon) <= plan.Began && !c.ranLate(plan)
}
