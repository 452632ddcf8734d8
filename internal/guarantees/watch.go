package guarantees

import (
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// stream is what one group of equal watches was sent, from its beginning to its end.
type stream struct {
	history.WatchOpen
	open   *history.Event
	events []*history.Event
	// end is nil for one that has not ended.
	end *history.Event
	// scope is what must be sent, if it is known.
	scope
	known bool
}

// streams are all groups of watches, in the order in which they began.
func (p *past) streams() []*stream {
	type name struct{ boot, watch string }
	running := map[name]*stream{}
	// early are events of a group whose opening was not yet written down.
	early := map[name][]*history.Event{}
	var all []*stream
	namespaces := p.namespaces()
	for _, e := range p.events {
		switch fact := e.Fact.(type) {
		case history.WatchOpen:
			key := name{string(e.Boot), fact.Watch}
			if running[key] == nil {
				running[key] = &stream{WatchOpen: fact, open: e}
				running[key].scope, running[key].known = p.understand(fact, namespaces)
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
	return all
}

// namespaces are those of all commits, and none.
func (p *past) namespaces() []string {
	all, seen := []string{""}, map[string]bool{}
	for _, c := range p.commits {
		if namespace, _, found := strings.Cut(c.Key, "/"); found && !seen[namespace] {
			seen[namespace] = true
			all = append(all, namespace)
		}
	}
	return all
}

// understand finds the scope of a group; that of an older release has it in the hash that it is
// named after.
func (p *past) understand(open history.WatchOpen, namespaces []string) (scope, bool) {
	if of := open.Scope; of != nil {
		return p.scopeOf(open.Resource, of.Namespace, of.Labels, of.Fields)
	}
	if open.Selector != "" && !strings.HasPrefix(open.Selector, "spec.nodeName=") {
		return scope{}, false
	}
	hash := open.Watch[strings.LastIndexByte(open.Watch, '.')+1:]
	for _, namespace := range namespaces {
		subject := proto.WatchSubject("any", proto.WatchScope{Resource: open.Resource, Namespace: namespace, FieldSelector: open.Selector})
		if strings.HasSuffix(subject, "."+hash) {
			return p.scopeOf(open.Resource, namespace, "", open.Selector)
		}
	}
	return scope{}, false
}

// inOrder checks W1: the revisions of a watch never fall.
func inOrder(p *past, t *trial) {
	for _, s := range p.streams() {
		for i := 1; i < len(s.events); i++ {
			t.expect(sent(s.events[i-1]).Revision <= sent(s.events[i]).Revision, "a watch was sent an older revision after a newer one", s.open, s.events[i-1], s.events[i])
		}
	}
}

// once checks W2: no revision is sent twice to a watch.
func once(p *past, t *trial) {
	for _, s := range p.streams() {
		first := map[int64]*history.Event{}
		for _, e := range s.events {
			was := first[sent(e).Revision]
			t.expect(was == nil, "a watch was sent a revision twice", s.open, was, e)
			first[sent(e).Revision] = e
		}
	}
}

// gapless checks W3: between the first and the last revision that a watch was sent it was
// sent every one that its selector covers.
func gapless(p *past, t *trial) {
	for _, s := range p.streams() {
		s.replay(p, func(c *commit, e *history.Event) {
			if e == nil {
				t.expect(false, "a watch was not sent a commit that its selector covers", s.open, c.Event, s.events[len(s.events)-1])
			} else {
				t.expect(c != nil, "a watch was sent what its selector does not cover, or what was never committed", s.open, e)
			}
		})
	}
}

// typed checks W6: the type of an event is relative to the selector, and an event has the
// object and the uid of its commit.
func typed(p *past, t *trial) {
	for _, s := range p.streams() {
		s.replay(p, func(c *commit, e *history.Event) {
			if c == nil || e == nil {
				return
			}
			event := sent(e)
			t.expect(event.Type == s.expected(c), "a watch was sent another type than "+s.expected(c), s.open, eventOf(c.before), c.Event, e)
			t.expect(event.UID == c.UID, "a watch was sent another uid than was committed", c.Event, e)
			t.expect(c.Op == deleted || event.Type == deleted || event.Object == c.Object, "a watch was sent another object than was committed", c.Event, e)
		})
	}
}

// replay walks through what a watch must have been sent and what it was, in the order of
// revisions. One of the two is nil where only the other is there.
func (s *stream) replay(p *past, visit func(*commit, *history.Event)) {
	if !s.known || len(s.events) == 0 || s.open.Began < p.from {
		return
	}
	got := map[int64]*history.Event{}
	until := int64(0)
	for _, e := range s.events {
		revision := sent(e).Revision
		got[revision], until = e, max(until, revision)
	}
	for _, c := range p.commits {
		if c.Revision > until {
			break
		}
		e := got[c.Revision]
		delete(got, c.Revision)
		covered := s.expected(c) != ""
		switch {
		case covered && e != nil:
			visit(c, e)
		case covered && c.Revision > s.Revision && c.Revision > p.compacted:
			visit(c, nil)
		case e != nil && !covered:
			visit(nil, e)
		}
	}
	for _, e := range s.events {
		if got[sent(e).Revision] != nil && sent(e).Revision > p.compacted {
			visit(nil, e)
		}
	}
}

// forward checks W8 for kubelets and controllers: what they read of one object never gets
// older, over reconnects and restarts of the apiserver.
func forward(p *past, t *trial) {
	type what struct{ process, key string }
	last := map[what]*history.Event{}
	for _, e := range p.events {
		fact, is := e.Fact.(history.KubeletSee)
		if !is || number(fact.Revision) == 0 {
			continue
		}
		key := what{e.Process, fact.UID}
		if was := last[key]; was != nil {
			before, _ := was.Fact.(history.KubeletSee)
			t.expect(number(before.Revision) <= number(fact.Revision), "a kubelet saw an older version of a pod after a newer one", was, e)
		}
		last[key] = e
	}
	p.copiedForward(t)
}

// agreed checks W9: whoever is sent an event of a revision is sent the same.
func agreed(p *past, t *trial) {
	type what struct {
		revision int64
		typ      string
	}
	first := map[what]*history.Event{}
	for _, e := range p.events {
		event, is := e.Fact.(history.WatchEvent)
		if !is {
			continue
		}
		key := what{event.Revision, event.Type}
		was := first[key]
		if was == nil {
			first[key] = e
			continue
		}
		t.expect(sent(was).UID == event.UID && sent(was).Object == event.Object, "two watches were sent different objects at one revision", was, e)
	}
}

func sent(e *history.Event) history.WatchEvent {
	event, _ := e.Fact.(history.WatchEvent)
	return event
}
