package guarantees

import (
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// cutOffNode is a node that exchanged no message with anyone between two times.
type severed struct {
	*ordeal

	node string
	// from and to are monotonic times. At from, messages in flight have arrived or are held.
	from, to int64
}

// inFlightTime is how long a message that passed the link before a cut may take to have its effect.
const underWay = int64(2 * time.Second)

// cutOffNodes returns the nodes behind full cuts. Cuts during which the apiserver itself was slow
// are left out, because messages that had passed the link wait there.
func (p *past) severed() []severed {
	var all []severed
	for _, o := range p.troubles {
		if !o.full() {
			continue
		}
		to := o.surelyUntil() - eps
		if !o.cut.Until.IsZero() {
			to = min(to, p.before(o.begin, o.cut.Until))
		}
		s := severed{ordeal: o, from: o.begin.Ended + underWay, to: to}
		slow := slices.ContainsFunc(p.troubles, func(other *ordeal) bool {
			return other != o && other.Kind != history.TroubleClock && other.touches(o.since()-underWay, s.from)
		})
		for _, party := range o.Off {
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
func (p *past) before(after *history.Event, shows time.Time) int64 {
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
func cutOff(p *past, t *trial) {
	for _, s := range p.severed() {
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
		p.heardThrough(t, s)
	}
}

// checkNothingSeen checks that the node's kubelet saw no commit made during the cut.
func (p *past) heardThrough(t *trial, s severed) {
	for e, see := range factsOf[history.KubeletSee](p) {
		if nodeOf(e.Process) != s.node || e.Began < s.from || e.Ended > s.to {
			continue
		}
		seen := p.byRevision[number(see.Revision)]
		t.expect(seen == nil || seen.Began < s.from, "a kubelet heard of a commit through a cut", s.begin, eventOf(seen), e, s.end)
	}
}

// checkCutOffKubelet checks K14: a kubelet that is cut off ends no pod for lack of news.
func steadfast(p *past, t *trial) {
	for _, s := range p.severed() {
		for _, one := range p.lives() {
			if one.node() != s.node || one.first() == nil || one.first().Began > s.begin.Began || one.gone() != nil && one.gone().Ended < s.from {
				continue
			}
			t.cases++
			for _, e := range one.seen {
				see, _ := e.Fact.(history.KubeletSee)
				if see.Op == "REMOVE" && e.Began > s.from && e.Ended < s.to {
					t.expect(false, "a kubelet that was cut off took a pod for removed", s.begin, e, s.end)
				}
			}
			p.unheard(t, s, one)
		}
	}
}

// checkRestartedKubelet checks that a kubelet that restarted during the cut stops no pod that it
// has not seen.
func (p *past) unheard(t *trial, s severed, one *pod) {
	known := slices.ContainsFunc(append(slices.Clone(one.terms), one.seen...), func(e *history.Event) bool {
		see, is := e.Fact.(history.KubeletSee)
		return e.Began <= s.from && (!is || see.Grace != nil || see.Op == "REMOVE" || see.Op == "DELETE")
	})
	for _, e := range one.terms {
		reborn := p.bootOf(e)
		if known || e.Began <= s.from || e.Ended >= s.to || reborn == nil || reborn.Began <= s.from {
			continue
		}
		heard := slices.ContainsFunc(one.seen, func(seen *history.Event) bool { return seen.Boot == e.Boot && seen.Began < e.Began })
		t.expect(heard, "a kubelet that began behind a cut ended a pod that it had not heard of", s.begin, reborn, e)
	}
}

// kubeletBootOf returns the start of the kubelet boot that recorded an event; nil if unknown.
func (p *past) bootOf(e *history.Event) *history.Event {
	for boot := range factsOf[history.KubeletBoot](p) {
		if boot.Process == e.Process && boot.Boot == e.Boot {
			return boot
		}
	}
	return nil
}
