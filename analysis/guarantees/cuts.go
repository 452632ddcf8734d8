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
func (p *clusterHistory) cutOffNodes() []cutOffNode {
	var all []cutOffNode
	for _, o := range p.troubles {
		if !o.isFullCut() {
			continue
		}
		to := o.surelyOverAt() - recordDelay
		if !o.cut.Until.IsZero() {
			to = min(to, p.timeBefore(o.begin, o.cut.Until))
		}
		s := cutOffNode{trouble: o, from: o.begin.Ended + inFlightTime, to: to}
		slow := slices.ContainsFunc(p.troubles, func(other *trouble) bool {
			return other != o && other.Kind != history.TroubleClock && other.mayOverlap(o.since()-inFlightTime, s.from)
		})
		for _, party := range o.CutOff {
			if p.kubelets[party] && !slow && s.from < s.to {
				s.node = party
				all = append(all, s)
			}
		}
	}
	return all
}

// timeBefore returns the latest monotonic time at which the cluster's clock was surely before
// `shows`.
func (p *clusterHistory) timeBefore(after *history.Event, shows time.Time) int64 {
	at := after.Ended
	for _, e := range p.ticks {
		if !e.Wall.Before(shows) {
			break
		}
		at = max(at, e.Began)
	}
	return at
}

// checkCut checks N3: nothing passes a full cut. A write of the node that arrives came through the
// cut; so did a commit that the kubelet sees and that was made during the cut.
func checkCut(p *clusterHistory, t *tally) {
	for _, s := range p.cutOffNodes() {
		t.cases++
		for _, o := range p.operations {
			if o.node != s.node {
				continue
			}
			for _, call := range o.calls {
				if call.Began > s.from && call.Ended < s.to {
					t.expect(false, "a request came through a cut", s.begin, call, s.end)
				}
			}
		}
		p.checkNothingSeen(t, s)
	}
}

// checkNothingSeen checks that the node's kubelet saw no commit made during the cut.
func (p *clusterHistory) checkNothingSeen(t *tally, s cutOffNode) {
	for e, see := range factsOf[history.KubeletSee](p) {
		if nodeOf(e.Process) != s.node || e.Began < s.from || e.Ended > s.to {
			continue
		}
		seen := p.byRevision[parseRevision(see.Revision)]
		t.expect(seen == nil || seen.Began < s.from, "a kubelet heard of a commit through a cut", s.begin, eventOf(seen), e, s.end)
	}
}

// checkCutOffKubelet checks K14: a kubelet that is cut off ends no pod for lack of news.
func checkCutOffKubelet(p *clusterHistory, t *tally) {
	for _, s := range p.cutOffNodes() {
		for _, one := range p.completePods() {
			if one.nodeName() != s.node || one.firstStart() == nil || one.firstStart().Began > s.begin.Began || one.lastExit() != nil && one.lastExit().Ended < s.from {
				continue
			}
			t.cases++
			for _, e := range one.seen {
				see, _ := e.Fact.(history.KubeletSee)
				if see.Op == "REMOVE" && e.Began > s.from && e.Ended < s.to {
					t.expect(false, "a kubelet that was cut off took a pod for removed", s.begin, e, s.end)
				}
			}
			p.checkRestartedKubelet(t, s, one)
		}
	}
}

// checkRestartedKubelet checks that a kubelet that restarted during the cut stops no pod that it
// has not seen.
func (p *clusterHistory) checkRestartedKubelet(t *tally, s cutOffNode, one *podHistory) {
	known := slices.ContainsFunc(append(slices.Clone(one.terms), one.seen...), func(e *history.Event) bool {
		see, is := e.Fact.(history.KubeletSee)
		return e.Began <= s.from && (!is || see.Grace != nil || see.Op == "REMOVE" || see.Op == "DELETE")
	})
	for _, e := range one.terms {
		reborn := p.kubeletBootOf(e)
		if known || e.Began <= s.from || e.Ended >= s.to || reborn == nil || reborn.Began <= s.from {
			continue
		}
		heard := slices.ContainsFunc(one.seen, func(seen *history.Event) bool { return seen.Boot == e.Boot && seen.Began < e.Began })
		t.expect(heard, "a kubelet that began behind a cut ended a pod that it had not heard of", s.begin, reborn, e)
	}
}

// kubeletBootOf returns the start of the kubelet boot that recorded an event; nil if unknown.
func (p *clusterHistory) kubeletBootOf(e *history.Event) *history.Event {
	for boot := range factsOf[history.KubeletBoot](p) {
		if boot.Process == e.Process && boot.Boot == e.Boot {
			return boot
		}
	}
	return nil
}
