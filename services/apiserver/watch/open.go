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
	// partLimit is how many bytes of objects a part of the catch-up holds, unless a
	// single event is larger.
	partLimit = 32 << 10
	// helping is how many bytes of history are answered at once. Then the reader asks
	// again, from where it is by then, and holds no call while its consumer is slow.
	helping = 4 << 20
	// historyStep is how many events are read from the store at once.
	historyStep = 2048
	// freshnessLimit is how long a revision that is still to come is waited for.
	freshnessLimit = 3 * time.Second
)

// Send carries one part of an answer; more says that others follow.
type Send = func(ctx context.Context, part *proto.Response, more bool) error

// Open answers one watch request: parts of events, the last with the place in the live
// stream where they end. Without such a place the reader is to ask again behind the
// last event. An ERROR event in the last part ends the watch (WCH-25, WCH-30).
//
// An error before the first part is the API's refusal, for the caller to answer with.
// A later one is that of send.
func (h *Hub) Open(ctx context.Context, req Request, send Send) error {
	begin, err := startOf(req.Options)
	if err != nil {
		return err
	}
	selected, err := selectionOf(req.Scope)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("watch %s: %v", req.Scope.Resource, err))
	}
	if err := h.reach(ctx, begin.atLeast); err != nil {
		return err
	}
	join, snapshot := h.position(req.Class, selected)
	parts := &parts{hub: h, send: send}
	caughtUp := true
	switch {
	case begin.initial:
		err = parts.initial(ctx, h.current(snapshot, selected))
		if err == nil && begin.bookmark {
			err = parts.mark(ctx, join.GetRevision())
		}
	case begin.behind != now:
		caughtUp, err = parts.history(ctx, selected, begin.behind, snapshot.Revision())
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", req.Scope.Resource, err)
	}
	if !caughtUp {
		join = nil
	}
	return parts.end(ctx, join)
}

// reach waits for a revision that is still to come, but not for long (WCH-03).
func (h *Hub) reach(ctx context.Context, revision int64) error {
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

// position is a place in the live stream of a class, and a state of the store that includes
// everything up to there.
func (h *Hub) position(class string, selected selection) (*proto.Join, *store.Snapshot) {
	h.mu.Lock()
	joined := h.groups.join(class, selected, clock.Clock{}.Now())
	subject, sequence := joined.subject, joined.sequence
	h.mu.Unlock()
	snapshot := h.cfg.Store.Snapshot()
	h.cfg.History.Note("", history.WatchOpen{
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

// current is what the selection has in a snapshot, by key.
func (h *Hub) current(snapshot *store.Snapshot, selected selection) iter.Seq[*store.Record] {
	return func(yield func(*store.Record) bool) {
		for record := range snapshot.Scan(selected.scope.Resource, selected.scope.Namespace, "") {
			if selected.anything || selected.matches(look(h.cfg.Match, record)) {
				if !yield(record) {
					return
				}
			}
		}
	}
}

// parts is an answer that is being sent.
type parts struct {
	hub    *Hub
	send   Send
	events []*proto.Event
	// size is of the objects in events, and total of those already sent.
	size, total int
}

// initial sends an ADDED for each record (WCH-11, WCH-14).
func (p *parts) initial(ctx context.Context, records iter.Seq[*store.Record]) error {
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

// mark sends the end of the initial events (WCH-12).
func (p *parts) mark(ctx context.Context, revision uint64) error {
	return p.add(ctx, &proto.Event{
		Type: proto.EventType_EVENT_TYPE_BOOKMARK, Revision: revision, InitialEventsEnd: true,
	})
}

// history sends what happened after one revision up to another, or a helping of it: then
// caughtUp is false. It is false too when the history has gone, and an ERROR says so.
func (p *parts) history(ctx context.Context, selected selection, behind, until int64) (caughtUp bool, err error) {
	seen := views{match: p.hub.cfg.Match, kept: map[store.Key]view{}}
	for behind < until {
		events, err := p.hub.after(behind)
		if errors.Is(err, store.ErrCompacted) {
			return false, p.fail(ctx, TooOld(behind, p.hub.cfg.Store.Oldest()))
		}
		if err != nil {
			return false, err
		}
		for _, event := range events {
			if event.Revision > until {
				break
			}
			behind = event.Revision
			if err := p.change(ctx, selected, &seen, event); err != nil {
				return false, err
			}
			if p.total+p.size >= helping && behind < until {
				return false, nil
			}
		}
		if len(events) == 0 {
			break
		}
	}
	return true, nil
}

// after is a step of the history after a revision. One that does not go on is an error: it would be
// read for ever.
func (h *Hub) after(revision int64) ([]store.Event, error) {
	events, err := h.cfg.Store.SinceAtMost(revision, historyStep)
	if err == nil && len(events) > 0 && events[0].Revision <= revision {
		return nil, fmt.Errorf("history after revision %d has %d again: want it to go on", revision, events[0].Revision)
	}
	return events, err
}

// change sends one event of history, if the selection is told of it.
func (p *parts) change(ctx context.Context, selected selection, seen *views, event store.Event) error {
	if !selected.covers(event.Record.Key) {
		return nil
	}
	was := event.Previous != nil && (selected.anything || selected.matches(seen.see(event.Previous)))
	is := event.Type != store.Deleted && (selected.anything || selected.matches(seen.see(event.Record)))
	if news := told(event, was, is); news != nil {
		return p.add(ctx, news)
	}
	return nil
}

// fail adds the ERROR that ends the watch.
func (p *parts) fail(ctx context.Context, reason error) error {
	status, err := kinds.Encode(proto.StatusFrom(reason))
	if err != nil {
		return err
	}
	return p.add(ctx, &proto.Event{Type: proto.EventType_EVENT_TYPE_ERROR, Object: status})
}

// add puts an event into the next part, which is sent first when it is full.
func (p *parts) add(ctx context.Context, event *proto.Event) error {
	size := len(event.GetObject())
	if p.size > 0 && p.size+size > partLimit {
		if err := p.send(ctx, p.part(), true); err != nil {
			return err
		}
		p.total += p.size
		p.events, p.size = nil, 0
	}
	p.events = append(p.events, event)
	p.size += size
	return nil
}

// end sends the last part.
func (p *parts) end(ctx context.Context, join *proto.Join) error {
	last := p.part()
	last.Join = join
	return p.send(ctx, last, false)
}

func (p *parts) part() *proto.Response {
	return &proto.Response{
		Version: proto.Version, Code: http.StatusOK, Boot: string(p.hub.cfg.Boot), Events: p.events,
	}
}
