package guarantees

import (
	"cmp"
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// lookup is a recorded read with its event.
type lookup struct {
	history.OpRead
	*history.Event
	// scope is what a list or a watch selects, if it is known.
	scope      scope
	scopeKnown bool
}

// findLookups returns all reads, sorted by the revision of their answers.
func (h *clusterHistory) findLookups() []*lookup {
	var all []*lookup
	for e, fact := range factsOf[history.OpRead](h) {
		l := &lookup{OpRead: fact, Event: e}
		if fact.Verb != "get" {
			l.scope, l.scopeKnown = h.scopeOf(l.Resource, l.Key, l.Labels, l.Fields)
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b *lookup) int { return cmp.Compare(a.Revision, b.Revision) })
	return all
}

// isGetOrList reports whether the read is answered once and then over.
func (l *lookup) isGetOrList() bool { return l.Verb == "get" || l.Verb == "list" }

// wantsNewest reports whether a read asks for the newest state.
func (l *lookup) wantsNewest() bool { return l.ReadOptions.Revision == "" && l.ContinueRevision == 0 }

// exactRevision returns the revision that a list asks for, or 0.
func (l *lookup) exactRevision() int64 {
	switch {
	case l.ContinueRevision > 0:
		return l.ContinueRevision
	case l.Match == "Exact" || l.Match == "" && l.Limit > 0 && l.ContinueAfter == "":
		return parseRevision(l.ReadOptions.Revision)
	}
	return 0
}

// knownRevision says that an event proves that the store had reached a revision.
type knownRevision struct {
	revision int64
	by       *history.Event
}

// knownRevisions returns the proofs by time, each with the highest revision so far.
func (h *clusterHistory) knownRevisions() []knownRevision {
	shown := accumulate(h.answeredRevisions())
	return accumulate(append(shown, h.missedRemovals(shown)...))
}

// accumulate sorts proofs by time and raises each to the highest revision so far.
func accumulate(all []knownRevision) []knownRevision {
	slices.SortStableFunc(all, func(a, b knownRevision) int { return cmp.Compare(a.by.Ended, b.by.Ended) })
	for i := 1; i < len(all); i++ {
		all[i].revision = max(all[i].revision, all[i-1].revision)
	}
	return all
}

// answeredRevisions returns the revisions that completed writes and reads prove.
func (h *clusterHistory) answeredRevisions() []knownRevision {
	var all []knownRevision
	for _, o := range h.operations {
		if done := o.firstSuccess(); done != nil && len(o.commits) > 0 && o.lastCommit().Began <= done.Ended {
			all = append(all, knownRevision{o.lastCommit().Revision, done})
		}
	}
	for _, l := range h.lookups() {
		if l.isGetOrList() && isSuccess(l.Code) {
			all = append(all, knownRevision{l.Revision, l.Event})
		}
	}
	return all
}

// missedRemovals returns the removals that nobody may have been told of, but that a 404 proves: the
// object was known to exist, and was not found.
func (h *clusterHistory) missedRemovals(shown []knownRevision) []knownRevision {
	var all []knownRevision
	miss := func(resource, key string, since int64, by *history.Event) {
		was, removal := versionAt(h.versions(resource, key), knownBefore(shown, since).revision, by.Ended)
		if was != nil && was.Op != deleted && removal != nil {
			all = append(all, knownRevision{removal.Revision, by})
		}
	}
	for _, o := range h.operations {
		if !slices.Contains([]string{"update", "patch", "delete"}, o.Verb) || o.Subresource != "" || o.deniedByWebhook() {
			continue
		}
		for _, e := range o.returns {
			if ret, _ := e.Fact.(history.OpReturn); ret.Code == 404 {
				miss(o.Resource, o.Key, o.calls[0].Began, e)
			}
		}
	}
	for _, l := range h.lookups() {
		if l.wantsNewest() && l.Verb == "get" && l.Code == 404 {
			miss(l.Resource, l.Key, l.Began, l.Event)
		}
	}
	return all
}

// wasAnswered reports whether the operation was answered between two times with a code that fits.
func (o *operation) wasAnswered(from, to int64, with func(code int32) bool) bool {
	return slices.ContainsFunc(o.returns, func(e *history.Event) bool {
		ret, _ := e.Fact.(history.OpReturn)
		return e.Ended >= from && e.Ended <= to && with(ret.Code)
	})
}

// isError reports whether a status code says that something was not done.
func isError(code int32) bool { return code >= 400 }

// isRejection reports an error other than 404 and 409: those two say that the object is gone or has
// changed meanwhile.
func isRejection(code int32) bool { return isError(code) && code != 404 && code != 409 }

// firstSuccess returns the first answer that reports success, or nil. A refused operation may have
// been sent again, and succeeded later.
func (o *operation) firstSuccess() *history.Event {
	at := slices.IndexFunc(o.returns, func(e *history.Event) bool {
		ret, _ := e.Fact.(history.OpReturn)
		return isSuccess(ret.Code)
	})
	if at < 0 {
		return nil
	}
	return o.returns[at]
}

// knownBefore returns the revision that a read beginning at a time must include, and the event that
// proves it.
func knownBefore(shown []knownRevision, since int64) knownRevision {
	at, _ := slices.BinarySearchFunc(shown, since, func(s knownRevision, moment int64) int { return cmp.Compare(s.by.Ended, moment) })
	if at == 0 {
		return knownRevision{}
	}
	return shown[at-1]
}

// checkReadOrder checks A4 for reads. A read of the newest state includes what was answered before
// it began. No read is older than it asks for, and none shows a later commit.
func (h *clusterHistory) checkReadOrder(t *tally) {
	shown := h.knownRevisions()
	for _, l := range h.lookups() {
		if !l.isGetOrList() {
			continue
		}
		low := knownBefore(shown, l.Began)
		if isSuccess(l.Code) {
			c := h.byRevision[l.Revision]
			t.expect(c == nil || !c.recorded || c.Began <= l.Ended, "a read shows what had not begun when it was answered", eventOf(c), l.Event)
		}
		switch {
		case l.Verb == "list":
			l.checkListAge(low, t)
		case l.wantsNewest():
			l.checkGetAge(low, h, t)
		}
	}
}

// checkListAge checks that a list has the revision that it asks for, and at least what was known
// before it began.
func (l *lookup) checkListAge(low knownRevision, t *tally) {
	if !isSuccess(l.Code) {
		return
	}
	exact := l.exactRevision()
	t.expect(exact <= 0 || l.Revision == exact, "a list is of another revision than it asks for", l.Event)
	t.expect(exact > 0 || l.Revision >= parseRevision(l.ReadOptions.Revision), "a list is older than it asks for", l.Event)
	if l.wantsNewest() && l.ContinueAfter == "" {
		t.expect(l.Revision >= low.revision, "a list does not have what was answered before it began", low.by, l.Event)
	}
}

// checkGetAge checks that a get of the newest state returns the object as it was known before the
// get began, or a newer version.
func (l *lookup) checkGetAge(low knownRevision, h *clusterHistory, t *tally) {
	was, removal := versionAt(h.versions(l.Resource, l.Key), low.revision, l.Ended)
	switch {
	case isSuccess(l.Code):
		t.expect(was == nil || l.Revision >= was.Revision, "a get returned an older version than was answered before it began", low.by, eventOf(was), l.Event)
	case l.Code == 404:
		t.expect(was == nil || was.Op == deleted || removal != nil, "a get did not find what was answered before it began", low.by, eventOf(was), l.Event)
	}
}

// versionAt returns the last version up to a revision. removal is the first removal after the
// revision that began by the time `until`. Both may be nil.
func versionAt(versions []*commit, revision, until int64) (was, removal *commit) {
	for _, c := range versions {
		if c.Revision <= revision {
			was = c
		} else if removal == nil && c.Op == deleted && c.Began <= until {
			removal = c
		}
	}
	return was, removal
}

// checkListIsExact checks A12: a page of a list is the state at its revision.
func checkListIsExact(h *clusterHistory, t *tally) {
	known := h.commitLog()
	states := known.replay()
	for _, l := range h.lookups() {
		if l.Verb != "list" || !isSuccess(l.Code) || !l.scopeKnown || !known.knowsState(l.Revision) {
			continue
		}
		states.advanceTo(l.Revision)
		sum, more := states.pageDigest(l.scope, "", l.ContinueAfter, l.Limit)
		t.expect(sum.Count == l.Items && sum.String() == l.Digest, "a list is not what was there at its revision", eventOf(h.byRevision[l.Revision]), l.Event)
		t.expect(more == l.More, "a page says wrongly whether more follows", l.Event)
	}
}

// compactions returns which revisions were compacted, and when.
func (h *clusterHistory) compactions() []knownRevision {
	var all []knownRevision
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.Fsync:
			if fact.Oldest > 0 && (len(all) == 0 || fact.Oldest > all[len(all)-1].revision) {
				all = append(all, knownRevision{fact.Oldest, e})
			}
		case history.Compact:
			all = append(all, knownRevision{fact.Revision, e})
		}
	}
	return all
}

// checkCompactedRefused checks A13: reads of compacted revisions are refused with 410, and no
// others are.
func checkCompactedRefused(h *clusterHistory, t *tally) {
	forgotten := h.compactions()
	if len(forgotten) == 0 {
		return
	}
	for _, l := range h.lookups() {
		asked := int64(0)
		switch l.Verb {
		case "list":
			asked = l.exactRevision()
		case "watch":
			asked = l.startRevision()
		}
		if asked <= 0 || !isSuccess(l.Code) && l.Code != 410 || l.Began < h.completeFrom {
			continue
		}
		surely, perhaps := l.compactedBy(forgotten, asked)
		if l.Code == 410 {
			t.expect(perhaps != nil, "a revision was refused as too old that was not", forgotten[0].by, l.Event)
		} else {
			t.expect(surely == nil, "a revision was served that had been compacted", surely, l.Event)
		}
	}
}

// compactedBy returns the compaction of a revision that surely happened before a read began, and
// one that may have happened before it was answered; nil for none.
func (l *lookup) compactedBy(all []knownRevision, asked int64) (surely, perhaps *history.Event) {
	for _, f := range all {
		if f.revision <= asked {
			continue
		}
		if before(f.by, l.Event) && surely == nil {
			surely = f.by
		}
		if f.by.Began <= l.Ended+recordDelay {
			perhaps = f.by
		}
	}
	return surely, perhaps
}
