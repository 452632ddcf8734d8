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
func (w *removalWait) expect(p *clusterHistory, t *tally, slack time.Duration, what string) {
	late := p.isLate(w.since, w.until(), w.grace, slack)
	if late || w.until() < w.to {
		t.expect(!late, what, w.mark.Event, w.blocker, eventOf(w.removal))
	}
}

// findRemovalWaits returns the pods that wait for removal in calm periods. Pods that are still
// blocked by something in the cluster are left out.
func (p *clusterHistory) findRemovalWaits() []*removalWait {
	var all []*removalWait
	for _, c := range p.calmPeriods() {
		for _, one := range p.completePods() {
			if w, waits := p.removalWait(one, c); waits {
				all = append(all, w)
			}
		}
	}
	return all
}

// removalWait returns how a pod waits for removal in a calm period; false if it does not.
func (p *clusterHistory) removalWait(one *podHistory, c calmPeriod) (*removalWait, bool) {
	w := &removalWait{podHistory: one, calmPeriod: c}
	for _, change := range one.commits {
		switch {
		case change.Op == deleted:
			w.removal = change
		case change.Deadline != nil && w.mark == nil:
			w.mark = change
		}
	}
	if w.mark == nil || w.mark.Began > c.to || w.removal != nil && w.removal.Ended < c.from || !p.isManaged(one) || one.scriptBlocksEnd() {
		return nil, false
	}
	w.grace = max(seconds(w.mark.Grace), minGrace)
	for _, e := range one.terms { // a stop that is under way keeps its grace period (KBL-18)
		if fact, _ := e.Fact.(history.KubeletTerm); e.Began < w.mark.Began {
			w.grace = max(w.grace, time.Duration(fact.Grace)*time.Second)
		}
	}
	w.since = w.mark.Ended
	w.delayUntil(c.from, c.began)
	for i, change := range one.commits {
		if change.Op != deleted && len(change.Finalizers) > 0 && change.Deadline != nil {
			if i+1 == len(one.commits) {
				return nil, false // it has finalizers to the end
			}
			w.delayUntil(one.commits[i+1].Ended, one.commits[i+1].Event)
		}
	}
	p.addRefusals(w)
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
	case begun.Began > w.from: // with a kubelet that has ended meanwhile it was over
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
func (p *clusterHistory) isManaged(one *podHistory) bool {
	made := one.commits[0].operation
	if made == nil || made.node != "" {
		return false
	}
	node := one.nodeName()
	return node != "" && p.kubelets[node]
}

// nodeName returns the node that the pod was bound to; empty for none.
func (one *podHistory) nodeName() string {
	for _, c := range one.commits {
		if c.Node != "" {
			return c.Node
		}
	}
	return ""
}

// scriptBlocksEnd reports whether the script of one of the pod's containers delays its end.
func (one *podHistory) scriptBlocksEnd() bool {
	for _, c := range one.containers {
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
func (p *clusterHistory) addRefusals(w *removalWait) {
	node := w.nodeName()
	for _, o := range p.operations {
		if o.node != node || o.Resource != podResource || o.Key != w.name {
			continue
		}
		for _, answer := range o.returns {
			if said, _ := answer.Fact.(history.OpReturn); isRejection(said.Code) {
				w.delayUntil(answer.Ended+int64(reconnectTime), answer)
			}
		}
	}
}

// checkRemovalTime checks L1: an unblocked terminating pod is removed in time.
func checkRemovalTime(p *clusterHistory, t *tally) {
	for _, w := range p.removalWaits() {
		if w.blocker == nil && w.since >= w.from+int64(reconnectTime) {
			w.expect(p, t, removalBound, "a pod that nothing blocks is still there after its grace period and ten seconds")
		}
	}
}

// checkRemovalAfterBlocker checks L2: a pod is removed once its blocker is gone.
func checkRemovalAfterBlocker(p *clusterHistory, t *tally) {
	for _, w := range p.removalWaits() {
		switch {
		case w.blocker == nil && w.since >= w.from+int64(reconnectTime):
		case w.since > w.from+int64(reconnectTime): // a finalizer or a refusal
			w.expect(p, t, removalBound, "a pod is still there although what has blocked it is gone")
		default:
			w.expect(p, t, removalBound+reconnectTime, "a pod is still there although all is mended")
		}
	}
}

// checkOrphansStopped checks L3: a healed kubelet stops the containers of pods that the API no
// longer has.
func checkOrphansStopped(p *clusterHistory, t *tally) {
	for _, c := range p.calmPeriods() {
		for _, one := range p.completePods() {
			last := one.commits[len(one.commits)-1]
			if last.Op != deleted || last.Began > c.to || !p.isManaged(one) || one.scriptBlocksEnd() {
				continue
			}
			for _, ctr := range one.containers {
				if len(ctr.started) > 0 {
					p.checkOrphan(t, ctr, last, c)
				}
			}
		}
	}
}

// checkOrphan checks a container whose pod was removed from the API.
func (p *clusterHistory) checkOrphan(t *tally, ctr *container, removed *commit, c calmPeriod) {
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
	late := p.isLate(since, until, grace, orphanBound+reconnectTime)
	if late || until < c.to {
		t.expect(!late, "a container still runs although its pod is gone from the API and its node is whole", ctr.started[0], removed.Event, exit)
	}
}
