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
func checkWatchersCaughtUp(h *clusterHistory, t *tally) {
	streams := h.streams()
	for _, c := range h.calmPeriods() {
		for _, s := range streams {
			h.checkStreamCaughtUp(t, s, c)
		}
		for _, pod := range h.completePods() {
			h.checkKubeletCaughtUp(t, pod, c)
		}
	}
}

// checkStreamCaughtUp checks that a watch was sent what was committed before and in the calm
// period.
func (h *clusterHistory) checkStreamCaughtUp(t *tally, s *stream, c calmPeriod) {
	if !s.scopeKnown || s.open.Ended > c.to || s.end != nil && s.end.Began < c.to || h.hasNewerBoot(s.open, c.to) {
		return
	}
	for _, change := range h.commitsAfter(s.Revision) {
		if !change.recorded || change.Began < s.open.Ended || change.Ended > c.to || s.eventType(change) == "" {
			continue
		}
		since, until := max(change.Ended, c.from), c.to
		got := s.sent[change.Revision]
		if got != nil {
			until = min(until, got.Began)
		}
		late := h.isLate(since, until, 0, watchLag)
		if late || got != nil && got.Ended >= c.from {
			t.expect(!late, "a watch was not sent a commit in time although nothing was broken", s.open, change.Event, got)
		}
	}
}

// hasNewerBoot reports whether the process of an event started again before a time.
func (h *clusterHistory) hasNewerBoot(e *history.Event, until int64) bool {
	return slices.ContainsFunc(h.boots[e.Process], func(i *processBoot) bool {
		return i.boot != e.Boot && i.lastBegan > e.Began && i.firstBegan < until &&
			slices.ContainsFunc(i.events, func(other *history.Event) bool { return other.Began > e.Began && other.Began < until })
	})
}

// checkKubeletCaughtUp checks that the pod's kubelet learned of its pod, of its deletion and of its
// removal.
func (h *clusterHistory) checkKubeletCaughtUp(t *tally, pod *podHistory, c calmPeriod) {
	if !h.isManaged(pod) {
		return
	}
	news := pod.lastNews(c.to)
	if news == nil || news.Op == deleted && (len(pod.seen) == 0 || h.hasNewerBoot(pod.seen[len(pod.seen)-1], c.to)) {
		return // a restarted kubelet never had the pod
	}
	var seen *history.Event
	for _, e := range pod.seen {
		see, _ := e.Fact.(history.KubeletSee)
		gone := see.Op == "REMOVE"
		if gone || news.Op != deleted && parseRevision(see.Revision) >= news.Revision {
			seen = e
			break
		}
	}
	since, until := max(news.Ended, c.from), c.to
	if gone := pod.commits[len(pod.commits)-1]; news.Op != deleted && gone.Op == deleted && seen == nil {
		until = min(until, gone.Began)
	}
	if seen != nil {
		until = min(until, seen.Began)
	}
	late := h.isLate(since, until, 0, watchLag+reconnectTime)
	if late || seen != nil && seen.Ended >= c.from && seen.Ended <= c.to {
		t.expect(!late, "a kubelet has not taken up what was committed about its pod", news.Event, seen)
	}
}

// lastNews returns the last commit before a time that the kubelet has to learn of: that it has the
// pod, that the pod is to end, or that the pod is gone.
func (pod *podHistory) lastNews(until int64) (news *commit) {
	for _, change := range pod.commits {
		isNews := change.replaced == nil || change.Node != change.replaced.Node || (change.Deadline == nil) != (change.replaced.Deadline == nil) || change.Op == deleted
		if change.Node != "" && isNews && change.Ended <= until {
			news = change
		}
	}
	return news
}
