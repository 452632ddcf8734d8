package guarantees

import (
	"strconv"

	"github.com/podfall/podfall/internal/history"
)

// startRevision returns the revision after which a watch asks to begin. It is 0 for a watch that
// begins with the current objects, or now.
func (l *lookup) startRevision() int64 {
	if l.SendInitialEvents != nil && *l.SendInitialEvents {
		return 0
	}
	return parseRevision(l.ReadOptions.Revision)
}

// eachWatchOpening visits the openings of watches with a known scope.
func (h *clusterHistory) eachWatchOpening(visit func(l *lookup, of scope)) {
	for _, l := range h.lookups() {
		if l.Verb == "watch" && l.scopeKnown {
			visit(l, l.scope)
		}
	}
}

// checkWatchResume checks W4: a watch that resumes is first sent every change since its revision.
// It is told 410 only if those changes are compacted.
func checkWatchResume(h *clusterHistory, t *tally) {
	known, forgotten := h.commitLog(), h.compactions()
	h.eachWatchOpening(func(l *lookup, of scope) {
		asked := l.startRevision()
		switch {
		case asked <= 0 || l.Began < h.completeFrom:
		case l.Code == 410:
			gone := len(forgotten) == 0 // an older release did not record compactions
			for _, f := range forgotten {
				gone = gone || f.revision > asked && f.by.Began <= l.Ended+recordDelay
			}
			t.expect(gone, "a watch was told that the changes since its revision are compacted, but they were not", l.Event)
		case isSuccess(l.Code) && l.Revision < asked:
			t.expect(l.Items == 0, "a watch was sent changes before the revision behind which it began", l.Event)
		case isSuccess(l.Code) && known.knowsState(asked) && known.knowsState(l.Revision):
			sum := known.watchDigest(of, asked, l.Revision)
			t.expect(sum.Count == l.Items && sum.String() == l.Digest, "a watch that resumed was not sent the changes since its revision",
				eventOf(h.byRevision[l.Revision]), l.Event)
		}
	})
}

// checkBookmark checks W5: everything up to a bookmark was sent. The end of the initial events
// comes after the existing objects. A consumer that was given changes up to a revision got all of
// them.
func checkBookmark(h *clusterHistory, t *tally) {
	known := h.commitLog()
	states := known.replay()
	h.eachWatchOpening(func(l *lookup, of scope) {
		if l.InitialEventsEnd == 0 || !isSuccess(l.Code) {
			return
		}
		t.expect(l.InitialEventsEnd == l.Revision, "the bookmark at the end of the initial events is of another revision than they are", l.Event)
		if known.knowsState(l.InitialEventsEnd) {
			states.advanceTo(l.InitialEventsEnd)
			sum, _ := states.pageDigest(of, added, "", 0)
			t.expect(sum.Count == l.Items && sum.String() == l.Digest, "a bookmark came before all that was there had been sent", l.Event)
		}
	})
	h.eachDelivery(func(delivery history.WatchDelivery, e, last *history.Event) {
		if last == nil {
			return
		}
		was, _ := last.Fact.(history.WatchDelivery)
		t.expect(delivery.From == was.To, "a consumer was given changes twice, or not from where it had come to", last, e)
	})
}

// eachDelivery visits what watches handed to their consumers, with the delivery before it.
func (h *clusterHistory) eachDelivery(visit func(delivery history.WatchDelivery, e, last *history.Event)) {
	type watch struct {
		process, boot string
		number        uint64
	}
	last := map[watch]*history.Event{}
	for e, delivery := range factsOf[history.WatchDelivery](h) {
		which := watch{e.Process, string(e.Boot), delivery.Watch}
		visit(delivery, e, last[which])
		last[which] = e
	}
}

// checkSlowConsumer checks W7: a consumer, however slow, is given every change or is told that its
// watch has ended.
func checkSlowConsumer(h *clusterHistory, t *tally) {
	known := h.commitLog()
	h.eachDelivery(func(delivery history.WatchDelivery, e, _ *history.Event) {
		of, understood := h.scopeOf(delivery.Resource, delivery.Namespace, delivery.Labels, delivery.Fields)
		if !understood || delivery.From == 0 || !known.knowsState(delivery.From) || !known.knowsState(delivery.To) {
			return
		}
		sum := known.watchDigest(of, delivery.From, delivery.To)
		t.expect(sum.Count == delivery.Items && sum.String() == delivery.Digest, "a consumer was not given every change, and its watch did not end",
			eventOf(h.byRevision[delivery.From]), eventOf(h.byRevision[delivery.To]), e)
	})
}

// checkWatchStart checks W10: how a watch is answered that begins at no revision, or at any, a
// present, a future or an invalid one.
func checkWatchStart(h *clusterHistory, t *tally) {
	known := h.commitLog()
	states := known.replay()
	h.eachWatchOpening(func(l *lookup, of scope) {
		asked, err := strconv.ParseInt("0"+l.ReadOptions.Revision, 10, 64)
		if err != nil {
			t.expect(!isSuccess(l.Code), "a watch from an invalid revision was accepted", l.Event)
			return
		}
		if !isSuccess(l.Code) {
			return
		}
		initial := asked == 0
		if l.SendInitialEvents != nil {
			initial = *l.SendInitialEvents
		}
		if c := h.byRevision[asked]; c != nil && c.recorded && initial && !l.More {
			t.expect(c.Began <= l.Ended, "a watch was first sent what there was before a revision that was still to come", l.Event, c.Event)
		}
		switch {
		case initial && known.knowsState(l.Revision):
			states.advanceTo(l.Revision)
			sum, _ := states.pageDigest(of, added, "", 0)
			t.expect(sum.Count == l.Items && sum.String() == l.Digest, "a watch was not first sent what there was", l.Event)
			t.expect(l.Revision >= asked, "a watch was first sent what there was before the revision that it asks for", l.Event)
		case !initial && asked == 0:
			t.expect(l.Items == 0, "a watch from now on was sent what had happened before", l.Event)
		}
	})
}

// checkCopies checks W8 for the caches of controllers and kubelets: a new list is not older than
// the cache.
func (h *clusterHistory) checkCopies(t *tally) {
	for e, fact := range factsOf[history.Relist](h) {
		if fact.From > 0 {
			t.expect(fact.To >= fact.From, "a cache was replaced by an older list", e)
		}
	}
}
