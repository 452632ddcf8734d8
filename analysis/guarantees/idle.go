package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

const jobResource = "jobs.batch"

// often is how often, at most, a controller decides the same about one object in the end.
const often = 10 * time.Second

// idle checks L9: in the end nothing is reconciled again and again. It looks at what comes a
// minute after the last trouble and the last write that was neither a controller's nor a
// kubelet's.
func idle(p *past, t *trial) {
	for _, c := range p.calms() {
		since := c.from
		for _, o := range p.operations {
			for _, call := range o.calls {
				if o.Who != controllers && o.node == "" && call.Ended <= c.to {
					since = max(since, call.Ended)
				}
			}
		}
		if since >= c.to || !p.late(since, c.to, 0, 2*settled) {
			continue
		}
		t.cases++
		p.again(t, since, c.to)
	}
}

// podsOfJobs are when the pods of each Job have changed, by its key.
func (p *past) podsOfJobs() map[string][]int64 {
	changed := map[string][]int64{}
	for _, c := range p.commits {
		if owner := p.byUID[c.Owner]; c.Resource == podResource && c.Owner != "" && len(owner) > 0 && owner[0].Resource == jobResource {
			changed[owner[0].Key] = append(changed[owner[0].Key], c.Ended)
		}
	}
	return changed
}

// again looks for what is decided again and again, a minute after a moment.
func (p *past) again(t *trial, since, until int64) {
	changed := p.podsOfJobs()
	all := map[history.Decide]*repeats{}
	var order []*repeats
	for e, what := range factsOf[history.Decide](p) {
		if e.Began < since || e.Ended > until || !p.late(since, e.Began, 0, settled) {
			continue
		}
		what.ReadRevision = ""
		if all[what] == nil {
			all[what] = &repeats{first: e}
			order = append(order, all[what])
		}
		var pods []int64
		if what.Resource == jobResource {
			pods = changed[what.Key]
		}
		all[what].add(e, pods)
	}
	for _, r := range order {
		_, lasted := between(r.first, r.last)
		fine := r.times <= 6 || lasted >= time.Duration(r.times-1)*often
		t.expect(fine, "a controller decides the same again and again although nothing happens", r.first, r.last)
	}
}

// repeats are decisions that are the same.
type repeats struct {
	first, last *history.Event
	// times is how many there are for nothing: what follows a change of a Job's pod is not, since
	// one that begins late may yet have much to do.
	times int
}

// add counts one about an object whose pods have changed at these times.
func (r *repeats) add(e *history.Event, changed []int64) {
	if r.last == nil || !slices.ContainsFunc(changed, func(at int64) bool { return r.last.Ended < at && at < e.Began }) {
		r.times++
	}
	r.last = e
}
