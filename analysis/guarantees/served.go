package guarantees

import (
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// The bounds of requests, on the machine's clock.
const (
	// serveBound is how long an apiserver may take to restart, per manyObjects objects if it has
	// more. machineSlack is how long the machine may take besides, to start a process and let it
	// run.
	serves = 2 * time.Second
	many   = 10_000
	busy   = 5 * time.Second
	// answerSlack is how much later than its deadline a request may be answered.
	answers = time.Second
)

// checkRestartTime checks L6: a killed apiserver serves again soon after it is started.
func serving(p *past, t *trial) {
	for _, o := range p.troubles {
		if o.Kind != history.TroubleDown || o.What != "apiserver" || o.end == nil {
			continue
		}
		alone := !slices.ContainsFunc(p.troubles, func(other *ordeal) bool { return other != o && other.touches(o.end.Began, o.end.Ended) })
		opened, n := p.storeOpened(o.end)
		if !alone || opened == nil {
			continue
		}
		bound := time.Duration(float64(serves)*math.Max(1, float64(n)/many)) + busy
		took := time.Duration(o.end.Ended - o.end.Began)
		t.expect(took <= bound, "the apiserver took longer to serve again than it may", o.begin, opened, o.end)
	}
}

// storeOpenedDuring returns the opening of the store during an event, and how many objects it had.
func (p *past) storeOpened(during *history.Event) (*history.Event, int) {
	for e, fact := range factsOf[history.StoreOpen](p) {
		if e.Began >= during.Began && e.Ended <= during.Ended {
			return e, fact.Objects
		}
	}
	return nil, 0
}

// checkRequestsAnswered checks L7: a request that reached the apiserver is answered or refused by
// its deadline, whatever is broken, unless the apiserver itself does not run.
func prompt(p *past, t *trial) {
	ends := p.ends()
	for _, o := range p.operations {
		if o.Left == nil {
			continue
		}
		left := time.Duration(*o.Left) * time.Millisecond
		for _, call := range o.calls {
			bound := call.Ended + int64(left+answers) + eps
			var answer *history.Event
			for _, e := range o.returns {
				if e.Boot == call.Boot && e.Ended >= call.Began {
					answer = e
					break
				}
			}
			if answer == nil && ends[string(call.Boot)] < bound+int64(busy) || p.apiserverAway(call.Ended, bound) {
				continue // nobody was there to answer
			}
			t.expect(answer != nil && answer.Ended <= bound, "a request was not answered by its deadline", call, answer)
		}
	}
}

// apiserverEnds returns the time of the last event of each apiserver boot.
func (p *past) ends() map[string]int64 {
	last := map[string]int64{}
	for _, i := range p.incarnations["apiserver"] {
		last[string(i.boot)] = i.ended
	}
	return last
}

// apiserverWasAway reports whether the apiserver may have been paused or down between two times.
func (p *past) apiserverAway(from, to int64) bool {
	return slices.ContainsFunc(p.troubles, func(o *ordeal) bool {
		return (o.Kind == history.TroublePaused || o.Kind == history.TroubleDown) && o.What == "apiserver" && o.touches(from, to)
	})
}
