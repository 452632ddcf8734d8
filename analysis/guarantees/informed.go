package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// watchLag is how far a watcher may be behind the store.
const watchLag = 5 * time.Second

// checkWatchersCaughtUp checks L4: in the end watchers equal the store. A watch was sent the last
// commit that its selector covers. A kubelet knows which pods it has and which of them are to end.
func checkWatchersCaughtUp(p *clusterHistory, t *tally) {
	streams := p.streams()
	for _, c := range p.calmPeriods() {
		for _, s := range streams {
			p.checkStreamCaughtUp(t, s, c)
		}
		for _, one := range p.completePods() {
			p.checkKubeletCaughtUp(t, one, c)
		}
	}
}

// checkStreamCaughtUp checks that a watch was sent what was committed before and in the calm
// period.
func (p *clusterHistory) checkStreamCaughtUp(t *tally, s *stream, c calmPeriod) {
	if !s.scopeKnown || s.open.Ended > c.to || s.end != nil && s.end.Began < c.to || p.hasNewerBoot(s.open, c.to) {
		return
	}
	for _, change := range p.commitsAfter(s.Revision) {
		if !change.recorded || change.Began < s.open.Ended || change.Ended > c.to || s.eventType(change) == "" {
			continue
		}
		since, until := max(change.Ended, c.from), c.to
		got := s.sent[change.Revision]
		if got != nil {
			until = min(until, got.Began)
		}
		late := p.isLate(since, until, 0, watchLag)
		if late || got != nil && got.Ended >= c.from {
			t.expect(!late, "a watch was not sent a commit although all is well", s.open, change.Event, got)
		}
	}
}

// hasNewerBoot reports whether the process of an event started again before a time.
func (p *clusterHistory) hasNewerBoot(e *history.Event, until int64) bool {
	return slices.ContainsFunc(p.boots[e.Process], func(i *processBoot) bool {
		return i.boot != e.Boot && i.lastBegan > e.Began && i.firstBegan < until &&
			slices.ContainsFunc(i.events, func(other *history.Event) bool { return other.Began > e.Began && other.Began < until })
	})
}

// checkKubeletCaughtUp checks that the pod's kubelet learned of its pod, of its deletion and of its
// removal.
func (p *clusterHistory) checkKubeletCaughtUp(t *tally, one *podHistory, c calmPeriod) {
	if !p.isManaged(one) {
		return
	}
	told := one.lastNews(c.to)
	if told == nil || told.Op == deleted && (len(one.seen) == 0 || p.hasNewerBoot(one.seen[len(one.seen)-1], c.to)) {
		return // a kubelet that has begun anew has never had it
	}
	var took *history.Event
	for _, e := range one.seen {
		see, _ := e.Fact.(history.KubeletSee)
		gone := see.Op == "REMOVE"
		if gone || told.Op != deleted && parseRevision(see.Revision) >= told.Revision {
			took = e
			break
		}
	}
	since, until := max(told.Ended, c.from), c.to
	if gone := one.commits[len(one.commits)-1]; told.Op != deleted && gone.Op == deleted && took == nil {
		until = min(until, gone.Began)
	}
	if took != nil {
		until = min(until, took.Began)
	}
	late := p.isLate(since, until, 0, watchLag+reconnectTime)
	if late || took != nil && took.Ended >= c.from && took.Ended <= c.to {
		t.expect(!late, "a kubelet has not taken up what was committed about its pod", told.Event, took)
	}
}

// lastNews returns the last commit before a time that the kubelet has to learn of: that it has the
// pod, that the pod is to end, or that the pod is gone.
func (one *podHistory) lastNews(until int64) (told *commit) {
	for _, change := range one.commits {
		news := change.replaced == nil || change.Node != change.replaced.Node || (change.Deadline == nil) != (change.replaced.Deadline == nil) || change.Op == deleted
		if change.Node != "" && news && change.Ended <= until {
			told = change
		}
	}
	return told
}
