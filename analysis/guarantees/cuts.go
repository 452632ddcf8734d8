package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// cutOffNode is a node that exchanged no message with anyone between two times.
type cutOffNode struct {
	*trouble

	node string
	// from and to are monotonic times. At from, messages in flight have arrived or are held.
	from, to int64
}

// inFlightTime is how long a message that passed the link before a cut may take to have its effect.
const inFlightTime = int64(2 * time.Second)

// cutOffNodes returns the nodes behind full cuts. Cuts during which the apiserver itself was slow
// are left out, because messages that had passed the link wait there.
func (h *clusterHistory) cutOffNodes() []cutOffNode {
	var all []cutOffNode
	for _, tr := range h.troubles {
		if !tr.isFullCut() {
			continue
		}
		to := tr.surelyOverAt() - recordDelay
		if !tr.cut.Until.IsZero() {
			to = min(to, h.timeBefore(tr.begin, tr.cut.Until))
		}
		s := cutOffNode{trouble: tr, from: tr.begin.Ended + inFlightTime, to: to}
		slow := slices.ContainsFunc(h.troubles, func(another *trouble) bool {
			return another != tr && another.Kind != history.TroubleClock && another.mayOverlap(tr.since()-inFlightTime, s.from)
		})
		for _, name := range tr.CutOff {
			if h.kubelets[name] && !slow && s.from < s.to {
				s.node = name
				all = append(all, s)
			}
		}
	}
	return all
}

// timeBefore returns the latest monotonic time at which the cluster's clock was surely before
// `shows`.
func (h *clusterHistory) timeBefore(after *history.Event, shows time.Time) int64 {
	at := after.Ended
	for _, e := range h.ticks {
		if !e.Wall.Before(shows) {
			break
		}
		at = max(at, e.Began)
	}
	return at
}

// checkCut checks N3: nothing passes a full cut. A write of the node that arrives came through the
// cut; so did a commit that the kubelet sees and that was made during the cut.
func checkCut(h *clusterHistory, t *tally) {
	for _, s := range h.cutOffNodes() {
		t.cases++
		for _, o := range h.operations {
			if o.node != s.node {
				continue
			}
			for _, call := range o.calls {
				if call.Began > s.from && call.Ended < s.to {
					t.expect(false, "a request came through a cut", s.begin, call, s.end)
				}
			}
		}
		h.checkNothingSeen(t, s)
	}
}

// checkNothingSeen checks that the node's kubelet saw no commit made during the cut.
func (h *clusterHistory) checkNothingSeen(t *tally, s cutOffNode) {
	for e, see := range factsOf[history.KubeletSee](h) {
		if nodeOf(e.Process) != s.node || e.Began < s.from || e.Ended > s.to {
			continue
		}
		seen := h.byRevision[parseRevision(see.Revision)]
		t.expect(seen == nil || seen.Began < s.from, "a kubelet saw a commit through a cut", s.begin, eventOf(seen), e, s.end)
	}
}

// checkCutOffKubelet checks K14: a kubelet that is cut off ends no pod for lack of news.
func checkCutOffKubelet(h *clusterHistory, t *tally) {
	for _, s := range h.cutOffNodes() {
		for _, pod := range h.completePods() {
			if pod.nodeName() != s.node || pod.firstStart() == nil || pod.firstStart().Began > s.begin.Began || pod.lastExit() != nil && pod.lastExit().Ended < s.from {
				continue
			}
			t.cases++
			for _, e := range pod.seen {
				see, _ := e.Fact.(history.KubeletSee)
				if see.Op == "REMOVE" && e.Began > s.from && e.Ended < s.to {
					t.expect(false, "a kubelet that was cut off took a pod for removed", s.begin, e, s.end)
				}
			}
			h.checkRestartedKubelet(t, s, pod)
		}
	}
}

// checkRestartedKubelet checks that a kubelet that restarted during the cut stops no pod that it
// has not seen.
func (h *clusterHistory) checkRestartedKubelet(t *tally, s cutOffNode, pod *podHistory) {
	known := slices.ContainsFunc(append(slices.Clone(pod.terms), pod.seen...), func(e *history.Event) bool {
		see, is := e.Fact.(history.KubeletSee)
		return e.Began <= s.from && (!is || see.Grace != nil || see.Op == "REMOVE" || see.Op == "DELETE")
	})
	for _, e := range pod.terms {
		boot := h.kubeletBootOf(e)
		if known || e.Began <= s.from || e.Ended >= s.to || boot == nil || boot.Began <= s.from {
			continue
		}
		heard := slices.ContainsFunc(pod.seen, func(seen *history.Event) bool { return seen.Boot == e.Boot && seen.Began < e.Began })
		t.expect(heard, "a kubelet that restarted during a cut stopped a pod that it had not seen", s.begin, boot, e)
	}
}

// kubeletBootOf returns the start of the kubelet boot that recorded an event; nil if unknown.
func (h *clusterHistory) kubeletBootOf(e *history.Event) *history.Event {
	for boot := range factsOf[history.KubeletBoot](h) {
		if boot.Process == e.Process && boot.Boot == e.Boot {
			return boot
		}
	}
	return nil
}
