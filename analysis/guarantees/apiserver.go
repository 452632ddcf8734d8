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
func checkRestartTime(h *clusterHistory, t *tally) {
	for _, tr := range h.troubles {
		if tr.Kind != history.TroubleDown || tr.What != "apiserver" || tr.end == nil {
			continue
		}
		alone := !slices.ContainsFunc(h.troubles, func(another *trouble) bool { return another != tr && another.mayOverlap(tr.end.Began, tr.end.Ended) })
		opened, n := h.storeOpenedDuring(tr.end)
		if !alone || opened == nil {
			continue
		}
		bound := time.Duration(float64(serveBound)*math.Max(1, float64(n)/manyObjects)) + machineSlack
		took := time.Duration(tr.end.Ended - tr.end.Began)
		t.expect(took <= bound, "the apiserver took longer to serve again than it may", tr.begin, opened, tr.end)
	}
}

// storeOpenedDuring returns the opening of the store during an event, and how many objects it had.
func (h *clusterHistory) storeOpenedDuring(during *history.Event) (*history.Event, int) {
	for e, fact := range factsOf[history.StoreOpen](h) {
		if e.Began >= during.Began && e.Ended <= during.Ended {
			return e, fact.Objects
		}
	}
	return nil, 0
}

// checkRequestsAnswered checks L7: a request that reached the apiserver is answered or refused by
// its deadline, whatever is broken, unless the apiserver itself does not run.
func checkRequestsAnswered(h *clusterHistory, t *tally) {
	ends := h.apiserverEnds()
	for _, o := range h.operations {
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
			if answer == nil && ends[string(call.Boot)] < bound+int64(machineSlack) || h.apiserverWasAway(call.Ended, bound) {
				continue // no apiserver was running
			}
			t.expect(answer != nil && answer.Ended <= bound, "a request was not answered by its deadline", call, answer)
		}
	}
}

// apiserverEnds returns the time of the last event of each apiserver boot.
func (h *clusterHistory) apiserverEnds() map[string]int64 {
	last := map[string]int64{}
	for _, i := range h.boots["apiserver"] {
		last[string(i.boot)] = i.lastEnded
	}
	return last
}

// apiserverWasAway reports whether the apiserver may have been paused or down between two times.
func (h *clusterHistory) apiserverWasAway(from, to int64) bool {
	return slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
		return (tr.Kind == history.TroublePaused || tr.Kind == history.TroubleDown) && tr.What == "apiserver" && tr.mayOverlap(from, to)
	})
}
