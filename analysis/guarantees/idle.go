package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

const jobResource = "jobs.batch"

// minDecisionPeriod is the shortest period at which a controller may repeat a decision about one
// object in the end.
const minDecisionPeriod = 10 * time.Second

// checkIdle checks L9: in the end nothing is reconciled over and over. The check begins a minute
// after the last trouble and the last write by others than controllers and kubelets.
func checkIdle(h *clusterHistory, t *tally) {
	for _, c := range h.calmPeriods() {
		since := c.from
		for _, o := range h.operations {
			for _, call := range o.calls {
				if o.Identity != controllers && o.node == "" && call.Ended <= c.to {
					since = max(since, call.Ended)
				}
			}
		}
		if since >= c.to || !h.isLate(since, c.to, 0, 2*settleTime) {
			continue
		}
		t.cases++
		h.checkRepeatedDecisions(t, since, c.to)
	}
}

// jobPodChanges returns the times at which the pods of each Job changed, by the Job's key.
func (h *clusterHistory) jobPodChanges() map[string][]int64 {
	changed := map[string][]int64{}
	for _, c := range h.commits {
		if owner := h.byUID[c.Owner]; c.Resource == podResource && c.Owner != "" && len(owner) > 0 && owner[0].Resource == jobResource {
			changed[owner[0].Key] = append(changed[owner[0].Key], c.Ended)
		}
	}
	return changed
}

// checkRepeatedDecisions looks for decisions that are repeated, from a minute after `since`.
func (h *clusterHistory) checkRepeatedDecisions(t *tally, since, until int64) {
	changed := h.jobPodChanges()
	all := map[history.Decide]*repeatedDecision{}
	var order []*repeatedDecision
	for e, what := range factsOf[history.Decide](h) {
		if e.Began < since || e.Ended > until || !h.isLate(since, e.Began, 0, settleTime) {
			continue
		}
		what.ReadRevision = ""
		if all[what] == nil {
			all[what] = &repeatedDecision{first: e}
			order = append(order, all[what])
		}
		var pods []int64
		if what.Resource == jobResource {
			pods = changed[what.Key]
		}
		all[what].add(e, pods)
	}
	for _, r := range order {
		_, lasted := elapsed(r.first, r.last)
		fine := r.times <= 6 || lasted >= time.Duration(r.times-1)*minDecisionPeriod
		t.expect(fine, "a controller decides the same again and again although nothing happens", r.first, r.last)
	}
}

// repeatedDecision counts equal decisions.
type repeatedDecision struct {
	first, last *history.Event
	// times counts the decisions that follow no change. A decision about a Job that follows a
	// change of its pod is not counted, because a Job that begins late may still have much to do.
	times int
}

// add counts a decision about an object. changed are the times at which the object's pods changed.
func (r *repeatedDecision) add(e *history.Event, changed []int64) {
	if r.last == nil || !slices.ContainsFunc(changed, func(at int64) bool { return r.last.Ended < at && at < e.Began }) {
		r.times++
	}
	r.last = e
}
