package guarantees

import (
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// The bounds of what must happen in the end, beside grace periods.
const (
	// removalBound is how long an unblocked removal may take.
	removalBound = 10 * time.Second
	// reconnectTime is how long after the last trouble connections are still being restored and
	// failed requests retried. A cache lists again after up to 30 s, and as much again (WCH-31).
	reconnectTime = time.Minute
	// orphanBound is how long a container may outlive its pod in the API, besides its grace period.
	orphanBound = removalBound + minGrace
)

// removalWait is a pod waiting for its removal in a calm period.
type removalWait struct {
	*podHistory
	calmPeriod

	mark *commit
	// removal is the commit that removed the pod; nil for none.
	removal *commit
	// since is the monotonic time at which the last blocker ended. blocker is the event that shows
	// it; nil if nothing blocked the pod.
	since   int64
	blocker *history.Event
	// grace is the longest grace period that the containers may be given.
	grace time.Duration
}

// until returns when the wait ended, or the end of the calm period.
func (w *removalWait) until() int64 {
	if w.removal != nil && w.removal.Began < w.to {
		return w.removal.Began
	}
	return w.to
}

// expect counts a case unless the history ends before the bound.
func (w *removalWait) expect(h *clusterHistory, t *tally, slack time.Duration, what string) {
	late := h.isLate(w.since, w.until(), w.grace, slack)
	if late || w.until() < w.to {
		t.expect(!late, what, w.mark.Event, w.blocker, eventOf(w.removal))
	}
}

// findRemovalWaits returns the pods that wait for removal in calm periods. Pods that are still
// blocked by something in the cluster are left out.
func (h *clusterHistory) findRemovalWaits() []*removalWait {
	var all []*removalWait
	for _, c := range h.calmPeriods() {
		for _, pod := range h.completePods() {
			if w, waits := h.removalWait(pod, c); waits {
				all = append(all, w)
			}
		}
	}
	return all
}

// removalWait returns how a pod waits for removal in a calm period; false if it does not.
func (h *clusterHistory) removalWait(pod *podHistory, c calmPeriod) (*removalWait, bool) {
	w := &removalWait{podHistory: pod, calmPeriod: c}
	for _, change := range pod.commits {
		switch {
		case change.Op == deleted:
			w.removal = change
		case change.Deadline != nil && w.mark == nil:
			w.mark = change
		}
	}
	if w.mark == nil || w.mark.Began > c.to || w.removal != nil && w.removal.Ended < c.from || !h.isManaged(pod) || pod.scriptBlocksEnd() {
		return nil, false
	}
	w.grace = max(seconds(w.mark.Grace), minGrace)
	for _, e := range pod.terms { // a stop in progress keeps its grace period (KBL-18)
		if fact, _ := e.Fact.(history.KubeletTerm); e.Began < w.mark.Began {
			w.grace = max(w.grace, time.Duration(fact.Grace)*time.Second)
		}
	}
	w.since = w.mark.Ended
	w.delayUntil(c.from, c.began)
	for i, change := range pod.commits {
		if change.Op != deleted && len(change.Finalizers) > 0 && change.Deadline != nil {
			if i+1 == len(pod.commits) {
				return nil, false // the pod keeps finalizers to the end
			}
			w.delayUntil(pod.commits[i+1].Ended, pod.commits[i+1].Event)
		}
	}
	h.addRefusals(w)
	w.addBusyTimes()
	return w, w.since < c.to
}

// addBusyTimes delays the pod by what its kubelet was doing with its containers before it began to
// stop the pod, because the stop waits for that (KBL-19): postStart hooks, and containers being
// stopped after a failed probe or hook.
func (w *removalWait) addBusyTimes() {
	began := w.to
	if len(w.terms) > 0 {
		began = w.terms[0].Began
	}
	for _, c := range w.containers {
		for _, hook := range c.postStarts {
			w.delayBy(hook, began, endOf(hook, c.postStartEnds))
		}
		for _, stop := range slices.Concat(c.preStops, c.signaling) {
			w.delayBy(stop, began, endOf(stop, c.exits))
		}
	}
}

// delayBy delays the pod by an action that had begun before a time, until the action's end. end is
// nil if none was recorded.
func (w *removalWait) delayBy(begun *history.Event, before int64, end *history.Event) {
	switch {
	case begun.Began >= before:
	case end != nil:
		w.delayUntil(end.Ended, end)
	case begun.Began > w.from: // if the kubelet has ended since, the action is over
		w.delayUntil(w.to, begun)
	}
}

// delayUntil notes that the pod was blocked until a time, shown by an event.
func (w *removalWait) delayUntil(until int64, by *history.Event) {
	if until > w.since {
		w.since, w.blocker = until, by
	}
}

func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

// isManaged reports whether a kubelet has the pod, and got it from the API. A pod that a kubelet
// created itself mirrors a static pod.
func (h *clusterHistory) isManaged(pod *podHistory) bool {
	made := pod.commits[0].operation
	if made == nil || made.node != "" {
		return false
	}
	node := pod.nodeName()
	return node != "" && h.kubelets[node]
}

// nodeName returns the node that the pod was bound to; empty for none.
func (pod *podHistory) nodeName() string {
	for _, c := range pod.commits {
		if c.Node != "" {
			return c.Node
		}
	}
	return ""
}

// scriptBlocksEnd reports whether the script of one of the pod's containers delays its end.
func (pod *podHistory) scriptBlocksEnd() bool {
	for _, c := range pod.containers {
		for _, e := range c.created {
			fact, _ := e.Fact.(history.Create)
			for _, clause := range []string{"survives KILL", "stop hangs", "starts after"} {
				if strings.Contains(fact.Script, clause) {
					return true
				}
			}
		}
	}
	return false
}

// addRefusals delays the pod by what the API refused its kubelet.
func (h *clusterHistory) addRefusals(w *removalWait) {
	node := w.nodeName()
	for _, o := range h.operations {
		if o.node != node || o.Resource != podResource || o.Key != w.name {
			continue
		}
		for _, answer := range o.returns {
			if ret, _ := answer.Fact.(history.OpReturn); isRejection(ret.Code) {
				w.delayUntil(answer.Ended+int64(reconnectTime), answer)
			}
		}
	}
}

// checkRemovalTime checks L1: an unblocked terminating pod is removed in time.
func checkRemovalTime(h *clusterHistory, t *tally) {
	for _, w := range h.removalWaits() {
		if w.blocker == nil && w.since >= w.from+int64(reconnectTime) {
			w.expect(h, t, removalBound, "a pod that nothing blocks is still there after its grace period and ten seconds")
		}
	}
}

// checkRemovalAfterBlocker checks L2: a pod is removed once its blocker is gone.
func checkRemovalAfterBlocker(h *clusterHistory, t *tally) {
	for _, w := range h.removalWaits() {
		switch {
		case w.blocker == nil && w.since >= w.from+int64(reconnectTime):
		case w.since > w.from+int64(reconnectTime): // a finalizer or a refusal
			w.expect(h, t, removalBound, "a pod is still there although its blocker is gone")
		default:
			w.expect(h, t, removalBound+reconnectTime, "a pod is still there although all troubles are over")
		}
	}
}

// checkOrphansStopped checks L3: a healed kubelet stops the containers of pods that the API no
// longer has.
func checkOrphansStopped(h *clusterHistory, t *tally) {
	for _, c := range h.calmPeriods() {
		for _, pod := range h.completePods() {
			last := pod.commits[len(pod.commits)-1]
			if last.Op != deleted || last.Began > c.to || !h.isManaged(pod) || pod.scriptBlocksEnd() {
				continue
			}
			for _, ctr := range pod.containers {
				if len(ctr.started) > 0 {
					h.checkOrphan(t, ctr, last, c)
				}
			}
		}
	}
}

// checkOrphan checks a container whose pod was removed from the API.
func (h *clusterHistory) checkOrphan(t *tally, ctr *container, removed *commit, c calmPeriod) {
	since := max(removed.Ended, c.from)
	var exit *history.Event
	for _, e := range ctr.exits {
		exit = e
	}
	if ctr.started[0].Began > removed.Began || exit != nil && exit.Ended <= since {
		return
	}
	grace := minGrace
	for _, change := range ctr.pod.commits {
		grace = max(grace, seconds(change.Grace), seconds(change.SpecGrace))
	}
	for _, e := range ctr.pod.terms {
		fact, _ := e.Fact.(history.KubeletTerm)
		grace = max(grace, time.Duration(fact.Grace)*time.Second)
	}
	until := c.to
	if exit != nil {
		until = min(until, exit.Began)
	}
	late := h.isLate(since, until, grace, orphanBound+reconnectTime)
	if late || until < c.to {
		t.expect(!late, "a container still runs although its pod is gone from the API and its node is healthy", ctr.started[0], removed.Event, exit)
	}
}
