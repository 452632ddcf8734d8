package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// watchLag is how far a watcher may be behind the store.
const abreast = 5 * time.Second

// checkWatchersCaughtUp checks L4: in the end watchers equal the store. A watch was sent the last
// commit that its selector covers. A kubelet knows which pods it has and which of them are to end.
func informed(p *past, t *trial) {
	streams := p.streams()
	for _, c := range p.calms() {
		for _, s := range streams {
			p.upToDate(t, s, c)
		}
		for _, one := range p.lives() {
			p.heard(t, one, c)
		}
	}
}

// checkStreamCaughtUp checks that a watch was sent what was committed before and in the calm
// period.
func (p *past) upToDate(t *trial, s *stream, c calm) {
	if !s.known || s.open.Ended > c.to || s.end != nil && s.end.Began < c.to || p.newer(s.open, c.to) {
		return
	}
	for _, change := range p.after(s.Revision) {
		if !change.recorded || change.Began < s.open.Ended || change.Ended > c.to || s.expected(change) == "" {
			continue
		}
		since, until := max(change.Ended, c.from), c.to
		got := s.sent[change.Revision]
		if got != nil {
			until = min(until, got.Began)
		}
		late := p.late(since, until, 0, abreast)
		if late || got != nil && got.Ended >= c.from {
			t.expect(!late, "a watch was not sent a commit although all is well", s.open, change.Event, got)
		}
	}
}

// hasNewerBoot reports whether the process of an event started again before a time.
func (p *past) newer(e *history.Event, until int64) bool {
	return slices.ContainsFunc(p.incarnations[e.Process], func(i *incarnation) bool {
		return i.boot != e.Boot && i.to > e.Began && i.from < until &&
			slices.ContainsFunc(i.events, func(other *history.Event) bool { return other.Began > e.Began && other.Began < until })
	})
}

// checkKubeletCaughtUp checks that the pod's kubelet learned of its pod, of its deletion and of its
// removal.
func (p *past) heard(t *trial, one *pod, c calm) {
	if !p.served(one) {
		return
	}
	told := one.news(c.to)
	if told == nil || told.Op == deleted && (len(one.seen) == 0 || p.newer(one.seen[len(one.seen)-1], c.to)) {
		return // a kubelet that has begun anew has never had it
	}
	var took *history.Event
	for _, e := range one.seen {
		see, _ := e.Fact.(history.KubeletSee)
		gone := see.Op == "REMOVE"
		if gone || told.Op != deleted && number(see.Revision) >= told.Revision {
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
	late := p.late(since, until, 0, abreast+settling)
	if late || took != nil && took.Ended >= c.from && took.Ended <= c.to {
		t.expect(!late, "a kubelet has not taken up what was committed about its pod", told.Event, took)
	}
}

// lastNews returns the last commit before a time that the kubelet has to learn of: that it has the
// pod, that the pod is to end, or that the pod is gone.
func (one *pod) news(until int64) (told *commit) {
	for _, change := range one.commits {
		news := change.before == nil || change.Node != change.before.Node || (change.Deadline == nil) != (change.before.Deadline == nil) || change.Op == deleted
		if change.Node != "" && news && change.Ended <= until {
			told = change
		}
	}
	return told
}
