package guarantees

import (
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// The bounds of what must happen in the end, beside grace periods.
const (
	// promptly is how long what nothing blocks may take.
	promptly = 10 * time.Second
	// settling is how long after the last trouble connections are made anew, and what has
	// failed is tried again: a copy lists again after up to 30 s and as much again (WCH-31).
	settling = time.Minute
	// orphaned is how long a container may run whose pod the API has not, besides.
	orphaned = promptly + least
)

// wait is a pod that is to go, in a calm.
type wait struct {
	*pod
	calm

	marked *commit
	// gone is the commit that removed it; nil when none did.
	gone *commit
	// since is when the last that blocked it was over, in monotonic time, and by what it is
	// shown; nil when nothing has blocked it.
	since   int64
	blocker *history.Event
	// grace is the longest that its containers may be given.
	grace time.Duration
}

// until is when the wait was over, or nobody can say any more.
func (w *wait) until() int64 {
	if w.gone != nil && w.gone.Began < w.to {
		return w.gone.Began
	}
	return w.to
}

// expect leaves nothing to expect where the history ends before the bound does.
func (w *wait) expect(p *past, t *trial, slack time.Duration, what string) {
	late := p.late(w.since, w.until(), w.grace, slack)
	if late || w.until() < w.to {
		t.expect(!late, what, w.marked.Event, w.blocker, eventOf(w.gone))
	}
}

// findWaits finds all pods that are to go while all is calm, without those that something in the
// cluster still blocks.
func (p *past) findWaits() []*wait {
	var all []*wait
	for _, c := range p.calms() {
		for _, one := range p.lives() {
			if w, waits := p.wait(one, c); waits {
				all = append(all, w)
			}
		}
	}
	return all
}

// wait is how a pod waits in a calm.
func (p *past) wait(one *pod, c calm) (*wait, bool) {
	w := &wait{pod: one, calm: c}
	for _, change := range one.commits {
		switch {
		case change.Op == deleted:
			w.gone = change
		case change.Deadline != nil && w.marked == nil:
			w.marked = change
		}
	}
	if w.marked == nil || w.marked.Began > c.to || w.gone != nil && w.gone.Ended < c.from || !p.served(one) || one.staysUp() {
		return nil, false
	}
	w.grace = max(seconds(w.marked.Grace), least)
	for _, e := range one.terms { // a stop that is under way keeps its grace period (KBL-18)
		if fact, _ := e.Fact.(history.KubeletTerm); e.Began < w.marked.Began {
			w.grace = max(w.grace, time.Duration(fact.Grace)*time.Second)
		}
	}
	w.since = w.marked.Ended
	w.held(c.from, c.began)
	for i, change := range one.commits {
		if change.Op != deleted && len(change.Finalizers) > 0 && change.Deadline != nil {
			if i+1 == len(one.commits) {
				return nil, false // it has finalizers to the end
			}
			w.held(one.commits[i+1].Ended, one.commits[i+1].Event)
		}
	}
	p.refusals(w)
	w.busy()
	return w, w.since < c.to
}

// busy has the pod held by what its kubelet was at with its containers before it began to stop
// the pod, which waits for that (KBL-19): postStart hooks, and containers that were being
// stopped, for a probe or a hook that had failed.
func (w *wait) busy() {
	began := w.to
	if len(w.terms) > 0 {
		began = w.terms[0].Began
	}
	for _, c := range w.containers {
		for _, hook := range c.postStarts {
			w.heldBy(hook, began, endOf(hook, c.postStartEnds))
		}
		for _, stop := range slices.Concat(c.preStops, c.signaling) {
			w.heldBy(stop, began, endOf(stop, c.exits))
		}
	}
}

// heldBy notes that the pod was held by what had begun before a moment, until its end; nil for
// none that was told.
func (w *wait) heldBy(begun *history.Event, before int64, end *history.Event) {
	switch {
	case begun.Began >= before:
	case end != nil:
		w.held(end.Ended, end)
	case begun.Began > w.from: // with a kubelet that has ended meanwhile it was over
		w.held(w.to, begun)
	}
}

// held notes that something has held the pod until a moment.
func (w *wait) held(until int64, by *history.Event) {
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

// served reports whether a kubelet has the pod, and had it from the API: what a kubelet has
// made itself mirrors a static pod.
func (p *past) served(one *pod) bool {
	made := one.commits[0].by
	if made == nil || made.node != "" {
		return false
	}
	node := one.node()
	return node != "" && p.kubelets[node]
}

// node is the one that the pod was bound to; empty for none.
func (one *pod) node() string {
	for _, c := range one.commits {
		if c.Node != "" {
			return c.Node
		}
	}
	return ""
}

// staysUp reports whether the script of a container of the pod keeps its end up.
func (one *pod) staysUp() bool {
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

// refusals has what the API has refused the pod's kubelet hold the pod.
func (p *past) refusals(w *wait) {
	node := w.node()
	for _, o := range p.operations {
		if o.node != node || o.Resource != podResource || o.Key != w.name {
			continue
		}
		for _, answer := range o.returns {
			if said, _ := answer.Fact.(history.OpReturn); turndown(said.Code) {
				w.held(answer.Ended+int64(settling), answer)
			}
		}
	}
}

// goes checks L1: a terminating pod that nothing blocks goes in time.
func goes(p *past, t *trial) {
	for _, w := range p.waits() {
		if w.blocker == nil && w.since >= w.from+int64(settling) {
			w.expect(p, t, promptly, "a pod that nothing blocks is still there after its grace period and ten seconds")
		}
	}
}

// freed checks L2: a pod goes once its blocker is removed.
func freed(p *past, t *trial) {
	for _, w := range p.waits() {
		switch {
		case w.blocker == nil && w.since >= w.from+int64(settling):
		case w.since > w.from+int64(settling): // a finalizer or a refusal
			w.expect(p, t, promptly, "a pod is still there although what has blocked it is gone")
		default:
			w.expect(p, t, promptly+settling, "a pod is still there although all is mended")
		}
	}
}

// adopted checks L3: a healed kubelet ends what the API has not.
func adopted(p *past, t *trial) {
	for _, c := range p.calms() {
		for _, one := range p.lives() {
			last := one.commits[len(one.commits)-1]
			if last.Op != deleted || last.Began > c.to || !p.served(one) || one.staysUp() {
				continue
			}
			for _, ctr := range one.containers {
				if len(ctr.started) > 0 {
					p.orphan(t, ctr, last, c)
				}
			}
		}
	}
}

// orphan is a container whose pod the API has removed.
func (p *past) orphan(t *trial, ctr *container, removed *commit, c calm) {
	since := max(removed.Ended, c.from)
	var exit *history.Event
	for _, e := range ctr.exits {
		exit = e
	}
	if ctr.started[0].Began > removed.Began || exit != nil && exit.Ended <= since {
		return
	}
	grace := least
	for _, change := range ctr.pod.commits {
		grace = max(grace, seconds(change.Grace), seconds(change.OwnGrace))
	}
	for _, e := range ctr.pod.terms {
		fact, _ := e.Fact.(history.KubeletTerm)
		grace = max(grace, time.Duration(fact.Grace)*time.Second)
	}
	until := c.to
	if exit != nil {
		until = min(until, exit.Began)
	}
	late := p.late(since, until, grace, orphaned+settling)
	if late || until < c.to {
		t.expect(!late, "a container still runs although its pod is gone from the API and its node is whole", ctr.started[0], removed.Event, exit)
	}
}
