package guarantees

import (
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// stream holds what one group of equal watches was sent, from its beginning to its end.
type stream struct {
	history.WatchOpen
	open   *history.Event
	events []*history.Event
	// sent holds the last event of each revision.
	sent map[int64]*history.Event
	// end is nil if the stream has not ended.
	end *history.Event
	// scope is what must be sent, if it is known. replayed pairs it with what was sent.
	scope
	scopeKnown bool
	replayed   []replayedEvent
}

// replayedEvent pairs a commit with the event that a watch was sent for it. If only one of the two
// exists, the other is nil.
type replayedEvent struct {
	commit *commit
	// want is the event type that the commit is for the watch.
	want string
	got  *history.Event
}

// findStreams returns all groups of watches, in the order in which they began.
func (h *clusterHistory) findStreams() []*stream {
	type name struct{ boot, watch string }
	running := map[name]*stream{}
	// early holds events of groups with an opening that was recorded later.
	early := map[name][]*history.Event{}
	var all []*stream
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.WatchOpen:
			key := name{string(e.Boot), fact.Watch}
			if running[key] == nil {
				running[key] = &stream{WatchOpen: fact, open: e}
				running[key].scope, running[key].scopeKnown = h.scopeOfWatch(fact)
				all = append(all, running[key])
				running[key].events = slices.DeleteFunc(early[key], func(sent *history.Event) bool { return sent.Ended < e.Began })
				delete(early, key)
			}
		case history.WatchEvent:
			key := name{string(e.Boot), fact.Watch}
			if s := running[key]; s != nil {
				s.events = append(s.events, e)
			} else {
				early[key] = append(early[key], e)
			}
		case history.WatchEnd:
			if s := running[name{string(e.Boot), fact.Watch}]; s != nil {
				s.end = e
			}
			delete(running, name{string(e.Boot), fact.Watch})
		}
	}
	for _, s := range all {
		s.replay(h)
	}
	return all
}

// findNamespaces returns the namespaces of all commits, and the empty one.
func (h *clusterHistory) findNamespaces() []string {
	all, seen := []string{""}, map[string]bool{}
	for _, c := range h.commits {
		if strings.Contains(c.Key, "/") && !seen[c.object.namespace] {
			seen[c.object.namespace] = true
			all = append(all, c.object.namespace)
		}
	}
	return all
}

// scopeOfWatch returns the scope of a group of watches. Groups of older releases have it only in
// the hash in their name.
func (h *clusterHistory) scopeOfWatch(open history.WatchOpen) (scope, bool) {
	if of := open.Scope; of != nil {
		return h.scopeOf(open.Resource, of.Namespace, of.Labels, of.Fields)
	}
	if open.Selector != "" && !strings.HasPrefix(open.Selector, "spec.nodeName=") {
		return scope{}, false
	}
	hash := open.Watch[strings.LastIndexByte(open.Watch, '.')+1:]
	for _, namespace := range h.namespaces() {
		subject := proto.WatchSubject("any", proto.WatchScope{Resource: open.Resource, Namespace: namespace, FieldSelector: open.Selector})
		if strings.HasSuffix(subject, "."+hash) {
			return h.scopeOf(open.Resource, namespace, "", open.Selector)
		}
	}
	return scope{}, false
}

// checkWatchOrder checks W1: the revisions of a watch never fall.
func checkWatchOrder(h *clusterHistory, t *tally) {
	for _, s := range h.streams() {
		for i := 1; i < len(s.events); i++ {
			t.expect(watchEventOf(s.events[i-1]).Revision <= watchEventOf(s.events[i]).Revision, "a watch was sent an older revision after a newer one", s.open, s.events[i-1], s.events[i])
		}
	}
}

// checkNoDuplicateEvents checks W2: no revision is sent twice to a watch.
func checkNoDuplicateEvents(h *clusterHistory, t *tally) {
	for _, s := range h.streams() {
		first := map[int64]*history.Event{}
		for _, e := range s.events {
			was := first[watchEventOf(e).Revision]
			t.expect(was == nil, "a watch was sent a revision twice", s.open, was, e)
			first[watchEventOf(e).Revision] = e
		}
	}
}

// checkNoMissedEvents checks W3: between the first and the last revision that a watch was sent, it
// was sent every revision that its selector covers.
func checkNoMissedEvents(h *clusterHistory, t *tally) {
	for _, s := range h.streams() {
		for _, r := range s.replayed {
			if r.got == nil {
				t.expect(false, "a watch was not sent a commit that its selector covers", s.open, r.commit.Event, s.events[len(s.events)-1])
			} else {
				t.expect(r.commit != nil, "a watch was sent what its selector does not cover, or what was never committed", s.open, r.got)
			}
		}
	}
}

// checkEventTypes checks W6: the type of an event is relative to the selector, and an event has the
// object and the UID of its commit.
func checkEventTypes(h *clusterHistory, t *tally) {
	for _, s := range h.streams() {
		for _, r := range s.replayed {
			if r.commit != nil && r.got != nil {
				r.checkType(t, s)
			}
		}
	}
}

func (r replayedEvent) checkType(t *tally, s *stream) {
	c, event := r.commit, watchEventOf(r.got)
	t.expect(event.Type == r.want, "a watch was sent an event of another type than its selector gives the commit", s.open, eventOf(c.replaced), c.Event, r.got)
	t.expect(event.UID == c.UID, "a watch was sent another uid than was committed", c.Event, r.got)
	t.expect(c.Op == deleted || event.Type == deleted || event.Object == c.Object, "a watch was sent another object than was committed", c.Event, r.got)
}

// replay pairs the events that a watch was sent with those that it must have been sent, in the
// order of revisions.
func (s *stream) replay(h *clusterHistory) {
	s.sent = make(map[int64]*history.Event, len(s.events))
	first, last := s.Revision+1, int64(0)
	for _, e := range s.events {
		revision := watchEventOf(e).Revision
		s.sent[revision] = e
		first, last = min(first, revision), max(last, revision)
	}
	if !s.scopeKnown || len(s.events) == 0 || s.open.Began < h.completeFrom {
		return
	}
	for _, c := range h.commitsAfter(first - 1) {
		if c.Revision > last {
			break
		}
		want, e := s.eventType(c), s.sent[c.Revision]
		switch {
		case want == "" && e != nil:
			s.replayed = append(s.replayed, replayedEvent{got: e})
		case want != "" && (e != nil || c.Revision > s.Revision && c.Revision > h.compacted):
			s.replayed = append(s.replayed, replayedEvent{c, want, e})
		}
	}
	for _, e := range s.events {
		if revision := watchEventOf(e).Revision; revision > h.compacted && h.byRevision[revision] == nil {
			s.replayed = append(s.replayed, replayedEvent{got: e})
		}
	}
}

// checkClientsMoveForward checks W8 for kubelets and controllers: what they read of one object
// never gets older, over reconnects and restarts of the apiserver.
func checkClientsMoveForward(h *clusterHistory, t *tally) {
	type what struct{ process, key string }
	last := map[what]*history.Event{}
	for e, fact := range factsOf[history.KubeletSee](h) {
		if parseRevision(fact.Revision) == 0 {
			continue
		}
		key := what{e.Process, fact.UID}
		if was := last[key]; was != nil {
			before, _ := was.Fact.(history.KubeletSee)
			t.expect(parseRevision(before.Revision) <= parseRevision(fact.Revision), "a kubelet saw an older version of a pod after a newer one", was, e)
		}
		last[key] = e
	}
	h.checkCopies(t)
}

// checkWatchesAgree checks W9: all watches are sent the same object at a revision.
func checkWatchesAgree(h *clusterHistory, t *tally) {
	type what struct {
		revision int64
		typ      string
	}
	first := map[what]*history.Event{}
	for e, event := range factsOf[history.WatchEvent](h) {
		key := what{event.Revision, event.Type}
		was := first[key]
		if was == nil {
			first[key] = e
			continue
		}
		t.expect(watchEventOf(was).UID == event.UID && watchEventOf(was).Object == event.Object, "two watches were sent different objects at one revision", was, e)
	}
}

func watchEventOf(e *history.Event) history.WatchEvent {
	event, _ := e.Fact.(history.WatchEvent)
	return event
}
