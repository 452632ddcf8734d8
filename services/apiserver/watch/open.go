package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

const (
	// partLimit is how many bytes of objects a part of the catch-up holds, unless a single event is
	// larger.
	partLimit = 32 << 10
	// catchUpLimit is how many bytes of history one call is answered with. The reader then asks
	// again from the position that it has reached, so no call is held open while its consumer is
	// slow.
	catchUpLimit = 4 << 20
	// historyChunk is how many events are read from the store at once.
	historyChunk = 2048
	// freshnessLimit is how long a call waits for a revision that the store has not reached yet.
	freshnessLimit = 3 * time.Second
)

// Send carries one part of an answer; more says that others follow.
type Send = func(ctx context.Context, part *proto.Response, more bool) error

// Open answers one watch request with parts of events. The last part names the position in the live
// stream where the events end. If it names none, the reader asks again from its last event. An
// ERROR event in the last part ends the watch (WCH-25, WCH-30).
//
// An error before the first part is the API's refusal, for the caller to answer with. A later error
// is one of send.
func (h *Hub) Open(ctx context.Context, req Request, send Send) error {
	start, err := parseStart(req.Options)
	if err != nil {
		return err
	}
	selected, err := newSelection(req.Scope)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("watch %s: %v", req.Scope.Resource, err))
	}
	if err := h.waitForRevision(ctx, start.atLeast); err != nil {
		return err
	}
	join, snapshot := h.joinGroup(req.Class, selected)
	sender := &partSender{hub: h, send: send}
	caughtUp := true
	switch {
	case start.initial:
		err = sender.addInitial(ctx, h.selectedRecords(snapshot, selected))
		if err == nil && start.bookmark {
			err = sender.addInitialEventsEnd(ctx, join.GetRevision())
		}
	case start.after != fromNow:
		caughtUp, err = sender.addHistory(ctx, selected, start.after, snapshot.Revision())
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", req.Scope.Resource, err)
	}
	if !caughtUp {
		join = nil
	}
	return sender.finish(ctx, join)
}

// waitForRevision waits at most freshnessLimit for a revision that the store has not reached yet
// (WCH-03).
func (h *Hub) waitForRevision(ctx context.Context, revision int64) error {
	if revision <= h.cfg.Store.Snapshot().Revision() {
		return nil
	}
	short, cancel := h.cfg.Clock.Timeout(ctx, freshnessLimit)
	defer cancel()
	err := h.cfg.Store.WaitFor(short, revision)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return TooLarge(revision, h.cfg.Store.Snapshot().Revision())
	}
	return err
}

// joinGroup returns a position in the live stream of a class, and a state of the store that
// includes everything up to that position.
func (h *Hub) joinGroup(class string, selected selection) (*proto.Join, *store.Snapshot) {
	h.mu.Lock()
	joined := h.groups.join(class, selected, clock.Clock{}.Now())
	subject, sequence := joined.subject, joined.sequence
	h.mu.Unlock()
	snapshot := h.cfg.Store.Snapshot()
	h.cfg.History.Record("", history.WatchOpen{
		Watch: subject, Resource: selected.scope.Resource, Selector: strings.Trim(selected.scope.LabelSelector+","+selected.scope.FieldSelector, ","),
		Revision: snapshot.Revision(),
		Scope: &history.Scope{
			Namespace: selected.scope.Namespace, Labels: selected.scope.LabelSelector, Fields: selected.scope.FieldSelector,
		},
	})
	return &proto.Join{
		Boot: string(h.cfg.Boot), Sequence: sequence, Revision: uint64(snapshot.Revision()),
	}, snapshot
}

// selectedRecords yields the records of a snapshot that the selection matches, by key.
func (h *Hub) selectedRecords(snapshot *store.Snapshot, selected selection) iter.Seq[*store.Record] {
	return func(yield func(*store.Record) bool) {
		for record := range snapshot.Scan(selected.scope.Resource, selected.scope.Namespace, "") {
			if selected.matchesAll || selected.matches(newView(h.cfg.Match, record)) {
				if !yield(record) {
					return
				}
			}
		}
	}
}

// partSender sends an answer in parts.
type partSender struct {
	hub    *Hub
	send   Send
	events []*proto.Event
	// size counts the bytes of objects in events, total those already sent.
	size, total int
}

// addInitial adds an ADDED for each record (WCH-11, WCH-14).
func (p *partSender) addInitial(ctx context.Context, records iter.Seq[*store.Record]) error {
	for record := range records {
		added := &proto.Event{
			Type: proto.EventType_EVENT_TYPE_ADDED, Revision: uint64(record.Revision), Object: record.Data,
		}
		if err := p.add(ctx, added); err != nil {
			return err
		}
	}
	return nil
}

// addInitialEventsEnd adds the BOOKMARK that ends the initial events (WCH-12).
func (p *partSender) addInitialEventsEnd(ctx context.Context, revision uint64) error {
	return p.add(ctx, &proto.Event{
		Type: proto.EventType_EVENT_TYPE_BOOKMARK, Revision: revision, InitialEventsEnd: true,
	})
}

// addHistory adds what happened after one revision up to another. caughtUp is false if catchUpLimit
// was reached first, and if the history has been compacted, which an ERROR event says.
func (p *partSender) addHistory(ctx context.Context, selected selection, after, until int64) (caughtUp bool, err error) {
	views := viewCache{match: p.hub.cfg.Match, cached: map[store.Key]view{}}
	for after < until {
		events, err := p.hub.historyAfter(after)
		if errors.Is(err, store.ErrCompacted) {
			return false, p.addError(ctx, TooOld(after, p.hub.cfg.Store.Oldest()))
		}
		if err != nil {
			return false, err
		}
		for _, event := range events {
			if event.Revision > until {
				break
			}
			after = event.Revision
			if err := p.addChange(ctx, selected, &views, event); err != nil {
				return false, err
			}
			if p.total+p.size >= catchUpLimit && after < until {
				return false, nil
			}
		}
		if len(events) == 0 {
			break
		}
	}
	return true, nil
}

// historyAfter returns a chunk of the history after a revision. A chunk that does not advance is an
// error, because it would be read for ever.
func (h *Hub) historyAfter(revision int64) ([]store.Event, error) {
	events, err := h.cfg.Store.SinceAtMost(revision, historyChunk)
	if err == nil && len(events) > 0 && events[0].Revision <= revision {
		return nil, fmt.Errorf("history after revision %d has %d again: want it to go on", revision, events[0].Revision)
	}
	return events, err
}

// addChange adds one event of history, if it concerns the selection.
func (p *partSender) addChange(ctx context.Context, selected selection, views *viewCache, event store.Event) error {
	if !selected.covers(event.Record.Key) {
		return nil
	}
	was := event.Previous != nil && (selected.matchesAll || selected.matches(views.get(event.Previous)))
	is := event.Type != store.Deleted && (selected.matchesAll || selected.matches(views.get(event.Record)))
	if watchEvent := eventFor(event, was, is); watchEvent != nil {
		return p.add(ctx, watchEvent)
	}
	return nil
}

// addError adds the ERROR event that ends the watch.
func (p *partSender) addError(ctx context.Context, reason error) error {
	status, err := kinds.Encode(proto.StatusFrom(reason))
	if err != nil {
		return err
	}
	return p.add(ctx, &proto.Event{Type: proto.EventType_EVENT_TYPE_ERROR, Object: status})
}

// add puts an event into the next part. A full part is sent first.
func (p *partSender) add(ctx context.Context, event *proto.Event) error {
	size := len(event.GetObject())
	if p.size > 0 && p.size+size > partLimit {
		if err := p.send(ctx, p.newPart(), true); err != nil {
			return err
		}
		p.total += p.size
		p.events, p.size = nil, 0
	}
	p.events = append(p.events, event)
	p.size += size
	return nil
}

// finish sends the last part.
func (p *partSender) finish(ctx context.Context, join *proto.Join) error {
	last := p.newPart()
	last.Join = join
	return p.send(ctx, last, false)
}

func (p *partSender) newPart() *proto.Response {
	return &proto.Response{
		Version: proto.Version, Code: http.StatusOK, Boot: string(p.hub.cfg.Boot), Events: p.events,
	}
}
