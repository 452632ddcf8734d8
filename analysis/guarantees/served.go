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
	serveBound   = 2 * time.Second
	manyObjects  = 10_000
	machineSlack = 5 * time.Second
	// answerSlack is how much later than its deadline a request may be answered.
	answerSlack = time.Second
)

// checkRestartTime checks L6: a killed apiserver serves again soon after it is started.
func checkRestartTime(p *clusterHistory, t *tally) {
	for _, o := range p.troubles {
		if o.Kind != history.TroubleDown || o.What != "apiserver" || o.end == nil {
			continue
		}
		alone := !slices.ContainsFunc(p.troubles, func(other *trouble) bool { return other != o && other.mayOverlap(o.end.Began, o.end.Ended) })
		opened, n := p.storeOpenedDuring(o.end)
		if !alone || opened == nil {
			continue
		}
		bound := time.Duration(float64(serveBound)*math.Max(1, float64(n)/manyObjects)) + machineSlack
		took := time.Duration(o.end.Ended - o.end.Began)
		t.expect(took <= bound, "the apiserver took longer to serve again than it may", o.begin, opened, o.end)
	}
}

// storeOpenedDuring returns the opening of the store during an event, and how many objects it had.
func (p *clusterHistory) storeOpenedDuring(during *history.Event) (*history.Event, int) {
	for e, fact := range factsOf[history.StoreOpen](p) {
		if e.Began >= during.Began && e.Ended <= during.Ended {
			return e, fact.Objects
		}
	}
	return nil, 0
}

// checkRequestsAnswered checks L7: a request that reached the apiserver is answered or refused by
// its deadline, whatever is broken, unless the apiserver itself does not run.
func checkRequestsAnswered(p *clusterHistory, t *tally) {
	ends := p.apiserverEnds()
	for _, o := range p.operations {
		if o.TimeLeft == nil {
			continue
		}
		left := time.Duration(*o.TimeLeft) * time.Millisecond
		for _, call := range o.calls {
			bound := call.Ended + int64(left+answerSlack) + recordDelay
			var answer *history.Event
			for _, e := range o.returns {
				if e.Boot == call.Boot && e.Ended >= call.Began {
					answer = e
					break
				}
			}
			if answer == nil && ends[string(call.Boot)] < bound+int64(machineSlack) || p.apiserverWasAway(call.Ended, bound) {
				continue // nobody was there to answer
			}
			t.expect(answer != nil && answer.Ended <= bound, "a request was not answered by its deadline", call, answer)
		}
	}
}

// apiserverEnds returns the time of the last event of each apiserver boot.
func (p *clusterHistory) apiserverEnds() map[string]int64 {
	last := map[string]int64{}
	for _, i := range p.boots["apiserver"] {
		last[string(i.boot)] = i.lastEnded
	}
	return last
}

// apiserverWasAway reports whether the apiserver may have been paused or down between two times.
func (p *clusterHistory) apiserverWasAway(from, to int64) bool {
	return slices.ContainsFunc(p.troubles, func(o *trouble) bool {
		return (o.Kind == history.TroublePaused || o.Kind == history.TroubleDown) && o.What == "apiserver" && o.mayOverlap(from, to)
	})
}
