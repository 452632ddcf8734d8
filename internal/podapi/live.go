package podapi

import (
	"context"
	"fmt"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

func (r *reader) heartbeatInterval() time.Duration {
	return r.client.cfg.Clock.ClampWallDuration(100*time.Millisecond, r.client.cfg.Heartbeat)
}

// readUntilHeartbeat reads the live stream for one heartbeat interval. It reports whether anything
// arrived.
func (r *reader) readUntilHeartbeat(ctx context.Context, live subscription) (heard bool, err error) {
	tick, cancel := clock.Clock{}.Timeout(ctx, r.heartbeatInterval())
	defer cancel()
	for {
		data, err := live.Next(tick)
		switch {
		case err != nil && tick.Err() != nil:
			return heard, ctx.Err()
		case err != nil:
			return heard, err
		}
		heard = true
		if err := r.receiveFrame(ctx, data); err != nil {
			return heard, err
		}
	}
}

// receiveFrame delivers one frame if it is the next.
func (r *reader) receiveFrame(ctx context.Context, data []byte) error {
	frame := &proto.Frame{}
	if err := protobuf.Unmarshal(data, frame); err != nil {
		return fmt.Errorf("unreadable frame: %w", err)
	}
	if news, err := r.cursor.Accept(frame); !news {
		return err
	}
	for _, event := range frame.GetEvents() {
		if event.GetRevision() <= r.cursor.Revision {
			continue // delivered already
		}
		if err := r.deliverEvent(ctx, event); err != nil {
			return err
		}
		r.cursor.Advance(event.GetRevision())
	}
	r.cursor.Advance(frame.GetRevision())
	return nil
}

// deliverEvent delivers one event to the consumer. After an ERROR the watch is over (WCH-25).
func (r *reader) deliverEvent(ctx context.Context, event *proto.Event) error {
	if event.GetInitialEventsEnd() {
		if r.initialEventsEnded {
			return nil
		}
		r.initialEventsEnded = true
	}
	decoded, err := decodeEvent(r.target.Kind, event)
	if err != nil {
		decoded = watch.Event{Type: watch.Error, Object: proto.StatusFrom(fmt.Errorf("watch %s: %w", r.target, err))}
	}
	deliver := r.deliverWithFaults
	if decoded.Type == watch.Bookmark || decoded.Type == watch.Error {
		deliver = r.send
	}
	if err := deliver(ctx, decoded); err != nil {
		return err
	}
	r.delivery.add(event, decoded)
	if decoded.Type == watch.Error {
		return errOver
	}
	return nil
}

// send waits until the consumer takes the event or ctx ends.
func (r *reader) send(ctx context.Context, event watch.Event) error {
	select {
	case r.out <- event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendDueBookmark sends a bookmark if one is due: every Config.Bookmark, and shortly before the end
// of the watch (WCH-24).
func (r *reader) sendDueBookmark(ctx context.Context) error {
	now := r.client.cfg.Clock.Steady()
	due := r.lastBookmark.Add(r.client.cfg.Bookmark)
	if last := r.deadline.Add(-finalBookmarkLead); r.lastBookmark.Before(last) && last.Before(due) {
		due = last
	}
	if !r.options.AllowWatchBookmarks || r.cursor.Revision == 0 || now.Before(due) {
		return nil
	}
	r.lastBookmark = now
	mark := &proto.Event{Type: proto.EventType_EVENT_TYPE_BOOKMARK, Revision: r.cursor.Revision}
	event, err := decodeEvent(r.target.Kind, mark)
	if err != nil {
		return err
	}
	return r.send(ctx, event)
}

// renewGroup tells the apiserver regularly, while the watch lasts, that the group still has a
// reader. A lost renewal is made up for by the next one, or by the reconnect after the silence.
func (r *reader) renewGroup(ctx context.Context) {
	every := func() time.Duration { return r.client.cfg.Clock.ClampWallDuration(2*time.Second, renewInterval) }
	req := call{verb: proto.VerbWatch, target: r.target, options: &metav1.ListOptions{
		LabelSelector: r.options.LabelSelector, FieldSelector: r.options.FieldSelector,
	}}
	req.target.Subresource = proto.SubresourceRenew
	for (clock.Clock{}).Sleep(ctx, every()) == nil {
		data, err := r.client.encodeRequest(req, r.client.cfg.Operation(), every())
		if err == nil {
			err = r.sendRenewal(ctx, req, data, every())
		}
		if err != nil {
			r.client.cfg.Log.DebugContext(ctx, "watch not renewed", "watch", r.scope.Resource, "cause", err)
		}
	}
}

func (r *reader) sendRenewal(ctx context.Context, req call, data []byte, patience time.Duration) error {
	ctx, cancel := clock.Clock{}.Timeout(ctx, patience)
	defer cancel()
	_, err := r.client.link.Request(ctx, proto.APIServer, r.client.subject(req), data)
	return err
}
