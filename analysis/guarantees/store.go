package guarantees

import (
	"cmp"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// checkWritesKept checks A1: every write that was answered with its revision is in the store, and
// so is every commit that the apiserver recorded.
func checkWritesKept(h *clusterHistory, t *tally) {
	for _, o := range h.operations {
		for _, answer := range o.returns {
			ret, _ := answer.Fact.(history.OpReturn)
			if !isSuccess(ret.Code) || ret.Revision == 0 || ret.Revision <= h.compacted {
				continue
			}
			c := h.byRevision[ret.Revision]
			t.expect(c != nil && (c.stored || !h.hasFile), "a write was answered with a revision that the store does not have", o.calls[0], answer)
		}
	}
	for _, c := range h.commits {
		if h.hasFile && c.recorded && c.Revision > h.compacted {
			t.expect(c.stored && !c.differs, "the store's file lacks a commit that was recorded", c.Event)
		}
	}
}

// checkCommitsRequested checks A2: every commit belongs to an operation that was requested before.
func checkCommitsRequested(h *clusterHistory, t *tally) {
	for _, c := range h.commits {
		if !c.recorded || c.Began < h.completeFrom || c.Cause == bootstrap {
			continue
		}
		o := c.operation
		t.expect(o != nil && o.calls[0].Began <= c.Ended, "a commit was made that no operation had requested", c.Event)
	}
}

// bootstrap is the cause of objects that the apiserver creates by itself on its first start.
const bootstrap = "bootstrap"

// checkRevisions checks A3: revisions have no gaps and no duplicates. After a restart, no revision
// is used again that was recorded or sent to a watcher.
func checkRevisions(h *clusterHistory, t *tally) {
	for i, c := range h.commits {
		if i > 0 && (c.stored || !h.hasFile) && (h.hasFile || c.Began >= h.completeFrom) {
			last := h.commits[i-1]
			t.expect(c.Revision == last.Revision+1 && !c.differs, "a revision was left out or given twice", last.Event, c.Event)
		}
	}
	recorded, sent := int64(0), int64(0)
	var recordedBy, sentBy *history.Event
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.StoreOpen:
			t.expect(fact.Revision >= recorded, "after a restart the store is older than what it had answered", recordedBy, e)
			t.expect(fact.Revision >= sent, "after a restart the store is older than what a watcher was shown", sentBy, e)
		case history.WatchEvent:
			if fact.Revision > sent {
				sent, sentBy = fact.Revision, e
			}
		case history.Commit:
			t.expect(fact.Revision > recorded, "a revision was given again", recordedBy, e)
			recorded, recordedBy = max(recorded, fact.Revision), e
		case history.OpReturn:
			if fact.Revision > recorded {
				recorded, recordedBy = fact.Revision, e
			}
		}
	}
}

// checkRealTimeOrder checks A4: a write that began after another was answered has the higher
// revision. The check is linear after sorting.
func checkRealTimeOrder(h *clusterHistory, t *tally) {
	var calls, answers []*operation
	for _, o := range h.operations {
		if len(o.commits) > 0 && len(o.calls) == 1 {
			calls = append(calls, o)
			if len(o.returns) == 1 {
				answers = append(answers, o)
			}
		}
	}
	slices.SortFunc(calls, func(a, b *operation) int { return cmp.Compare(a.calls[0].Ended, b.calls[0].Ended) })
	slices.SortFunc(answers, func(a, b *operation) int { return cmp.Compare(a.returns[0].Ended, b.returns[0].Ended) })
	var highest *operation
	next := 0
	for _, o := range calls {
		for next < len(answers) && before(answers[next].returns[0], o.calls[0]) {
			if highest == nil || answers[next].lastCommit().Revision > highest.lastCommit().Revision {
				highest = answers[next]
			}
			next++
		}
		if highest != nil {
			t.expect(o.commits[0].Revision > highest.lastCommit().Revision, "a write has a lower revision than one that was answered before it began",
				highest.returns[0], highest.lastCommit().Event, o.calls[0], o.commits[0].Event)
		}
	}
	h.checkReadOrder(t)
}

func (o *operation) lastCommit() *commit { return o.commits[len(o.commits)-1] }

// checkReplacedRevisions checks A5: a write replaced the current revision. A delete that asked for
// a revision removed that revision.
func checkReplacedRevisions(h *clusterHistory, t *tally) {
	last := map[*object]*commit{}
	for _, c := range h.commits {
		if was := last[c.object]; was != nil {
			want := was.Revision
			if was.Op == deleted {
				want = 0
			}
			t.expect(c.Previous == want, "a commit did not replace the revision that was there", was.Event, c.Event)
		}
		last[c.object] = c
	}
	for _, o := range h.operations {
		_, meant := o.meantVersion()
		for _, c := range o.commits {
			if c.Key != o.Key || c.Resource != o.Resource || c.replaced != nil && c.replaced.operation == o {
				continue
			}
			if o.PreRevision != "" {
				t.expect(formatRevision(c.Previous) == o.PreRevision, "a delete was carried out on another revision than it asked for", o.calls[0], c.Event)
			}
			if meant != "" {
				t.expect(formatRevision(c.Previous) == meant, "an update replaced another revision than it was made from", o.calls[0], c.Event, o.returns[0])
			}
		}
	}
}

// meantVersion returns the UID and the revision that an update said it was about.
func (o *operation) meantVersion() (uid, revision string) {
	for _, answer := range o.returns {
		if ret, _ := answer.Fact.(history.OpReturn); ret.BodyUID != "" || ret.BodyRevision != "" {
			return ret.BodyUID, ret.BodyRevision
		}
	}
	return "", ""
}

// checkCreates checks A6: nothing is created over an existing object, and no UID is used twice.
func checkCreates(h *clusterHistory, t *tally) {
	first := map[string]*commit{}
	there := map[*object]*commit{}
	for _, c := range h.commits {
		switch c.Op {
		case added:
			t.expect(there[c.object] == nil, "an object was created over one that exists", eventOf(there[c.object]), c.Event)
			t.expect(first[c.UID] == nil, "a uid was given again", eventOf(first[c.UID]), c.Event)
			first[c.UID], there[c.object] = c, c
		case deleted:
			delete(there, c.object)
		default:
			was := there[c.object]
			t.expect(was == nil || was.UID == c.UID, "an object changed its uid", eventOf(was), c.Event)
		}
	}
}

func eventOf(c *commit) *history.Event {
	if c == nil {
		return nil
	}
	return c.Event
}

// checkUIDPreconditions checks A7: a delete that asked for a UID changed no other object. Neither
// did an update of an object or its status that had a UID.
func checkUIDPreconditions(h *clusterHistory, t *tally) {
	for _, o := range h.operations {
		meant, _ := o.meantVersion()
		if meant == "" {
			meant = o.PreUID
		}
		if meant == "" {
			continue
		}
		for _, c := range o.commits {
			if c.Key == o.Key && c.Resource == o.Resource {
				t.expect(c.UID == meant, "a request was carried out on another uid than it was about", o.calls[0], c.Event)
			}
		}
		for _, answer := range o.returns {
			ret, _ := answer.Fact.(history.OpReturn)
			t.expect(!isClientError(ret.Code) || len(o.returns) > 1 || len(o.commits) == 0, "a request was refused and carried out", o.calls[0], answer)
		}
	}
}

// checkMonotonicFields checks A8: an object's creation time and generation, a pod's node and phase,
// and the deletion fields only move forward. The pod garbage collector names no resourceVersion
// when it fails a pod, as upstream's. It may not have seen that the pod has succeeded (CTL-14). A
// pod whose containers all restart is Pending again while its init containers run (upstream's
// getPhase).
func checkMonotonicFields(h *clusterHistory, t *tally) {
	byCollector := map[string]bool{}
	h.eachDecision(func(d history.Decide, decided *history.Event, _ *operation) {
		byCollector[decided.Cause] = byCollector[decided.Cause] || d.Controller == podCollector
	})
	for _, c := range h.commits {
		was := c.replaced
		if was == nil || c.Op == added || was.UID != c.UID {
			continue
		}
		t.expect(was.Node == "" || c.Node == was.Node, "a pod changed its node", was.Event, c.Event)
		if was.Created != 0 && c.Created != 0 {
			t.expect(was.Created == c.Created, "an object changed its creationTimestamp", was.Event, c.Event)
			t.expect(was.Generation <= c.Generation, "an object's generation fell", was.Event, c.Event)
		}
		if was.Deadline != nil {
			t.expect(c.Deadline != nil && (!c.Deadline.After(*was.Deadline) || h.isPresentDeadline(c)), "a deletionTimestamp was taken back or put off", was.Event, c.Event)
			t.expect(c.Grace == nil || was.Grace == nil || *c.Grace <= *was.Grace, "a deletion's grace period grew", was.Event, c.Event)
		}
		unseen := was.Phase == "Succeeded" && c.Phase == "Failed" && byCollector[c.Cause]
		initializesAgain := was.RestartsAll && c.RestartsAll && was.Phase == "Running" && c.Phase == "Pending"
		t.expect(unseen || initializesAgain || phaseRank(was.Phase) <= phaseRank(c.Phase) && (phaseRank(was.Phase) < terminalRank || was.Phase == c.Phase),
			"a pod's phase went back", was.Event, c.Event)
	}
}

// isPresentDeadline reports whether a deletionTimestamp that had passed was set to the present
// (API-25), as far as is known. The clock may have been set while the request was carried out.
func (h *clusterHistory) isPresentDeadline(c *commit) bool {
	return !c.Deadline.After(c.Wall.Add(time.Second)) || c.operation != nil && h.clockMayHaveChanged("apiserver", c.operation.calls[0].Began, c.Ended)
}

// terminalRank is the rank of the phases that nothing follows.
const terminalRank = 3

// phaseRank orders pod phases.
func phaseRank(phase string) int {
	switch phase {
	case "Pending":
		return 1
	case "Running":
		return 2
	case "Succeeded", "Failed":
		return terminalRank
	}
	return 0
}

// checkNoWriteAfterDiskError checks A11: after the disk refused a commit, the same boot accepts no
// write.
func checkNoWriteAfterDiskError(h *clusterHistory, t *tally) {
	failed := map[string]*history.Event{}
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.StoreError:
			failed[string(e.Boot)] = e
			t.cases++
		case history.OpReturn:
			since := failed[string(e.Boot)]
			if since == nil {
				continue
			}
			if o := h.byID[e.Cause]; o != nil && isSuccess(fact.Code) && before(since, o.calls[0]) && len(o.commits) > 0 {
				t.expect(false, "a write was taken after the disk had refused one", since, o.calls[0], e)
			}
		}
	}
}

// checkRefusedHasNoEffect checks A14: refused requests and dry runs changed nothing.
func checkRefusedHasNoEffect(h *clusterHistory, t *tally) {
	for _, o := range h.operations {
		if o.DryRun {
			t.expect(len(o.commits) == 0, "a dry run changed something", append([]*history.Event{o.calls[0]}, o.commitEvents()...)...)
		}
		if len(o.calls) != 1 || len(o.returns) != 1 || o.Verb == string(proto.VerbDeleteCollection) && o.deniedByWebhook() {
			continue // one of several tries may have been accepted, and a webhook may refuse some of many objects
		}
		if ret, _ := o.returns[0].Fact.(history.OpReturn); isClientError(ret.Code) {
			t.expect(len(o.commits) == 0, "a request was refused and carried out", append([]*history.Event{o.calls[0], o.returns[0]}, o.commitEvents()...)...)
		}
	}
}

func (o *operation) commitEvents() []*history.Event {
	events := make([]*history.Event, 0, len(o.commits))
	for _, c := range o.commits {
		events = append(events, c.Event)
	}
	return events
}
