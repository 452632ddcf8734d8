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

func (r *reader) heartbeat() time.Duration {
	return r.client.cfg.Clock.WallWithin(100*time.Millisecond, r.client.cfg.Heartbeat)
}

// readUntilHeartbeat reads the live stream for one heartbeat interval. It reports whether anything
// arrived.
func (r *reader) beat(ctx context.Context, live subscription) (heard bool, err error) {
	tick, cancel := clock.Clock{}.Timeout(ctx, r.heartbeat())
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
		if err := r.receive(ctx, data); err != nil {
			return heard, err
		}
	}
}

// receiveFrame delivers one frame if it is the next.
func (r *reader) receive(ctx context.Context, data []byte) error {
	frame := &proto.Frame{}
	if err := protobuf.Unmarshal(data, frame); err != nil {
		return fmt.Errorf("unreadable frame: %w", err)
	}
	if news, err := r.at.Admit(frame); !news {
		return err
	}
	for _, event := range frame.GetEvents() {
		if event.GetRevision() <= r.at.Revision {
			continue // caught up with already
		}
		if err := r.pass(ctx, event); err != nil {
			return err
		}
		r.at.Reached(event.GetRevision())
	}
	r.at.Reached(frame.GetRevision())
	return nil
}

// deliverEvent delivers one event to the consumer. After an ERROR the watch is over (WCH-25).
func (r *reader) pass(ctx context.Context, event *proto.Event) error {
	if event.GetInitialEventsEnd() {
		if r.marked {
			return nil
		}
		r.marked = true
	}
	decoded, err := decodeEvent(r.target.Kind, event)
	if err != nil {
		decoded = watch.Event{Type: watch.Error, Object: proto.StatusFrom(fmt.Errorf("watch %s: %w", r.target, err))}
	}
	deliver := r.deliver
	if decoded.Type == watch.Bookmark || decoded.Type == watch.Error {
		deliver = r.offer
	}
	if err := deliver(ctx, decoded); err != nil {
		return err
	}
	r.handed.add(event, decoded)
	if decoded.Type == watch.Error {
		return errOver
	}
	return nil
}

// send waits until the consumer takes the event or ctx ends.
func (r *reader) offer(ctx context.Context, event watch.Event) error {
	select {
	case r.out <- event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sendDueBookmark sends a bookmark if one is due: every Config.Bookmark, and shortly before the end
// of the watch (WCH-24).
func (r *reader) attend(ctx context.Context) error {
	now := r.client.cfg.Clock.Steady()
	due := r.bookmarked.Add(r.client.cfg.Bookmark)
	if last := r.ends.Add(-lastBookmark); r.bookmarked.Before(last) && last.Before(due) {
		due = last
	}
	if !r.options.AllowWatchBookmarks || r.at.Revision == 0 || now.Before(due) {
		return nil
	}
	r.bookmarked = now
	mark := &proto.Event{Type: proto.EventType_EVENT_TYPE_BOOKMARK, Revision: r.at.Revision}
	event, err := decodeEvent(r.target.Kind, mark)
	if err != nil {
		return err
	}
	return r.offer(ctx, event)
}

// renewGroup tells the apiserver regularly, while the watch lasts, that the group still has a
// reader. A lost renewal is made up for by the next one, or by the reconnect after the silence.
func (r *reader) renew(ctx context.Context) {
	every := func() time.Duration { return r.client.cfg.Clock.WallWithin(2*time.Second, renewEvery) }
	what := call{verb: proto.VerbWatch, target: r.target, options: &metav1.ListOptions{
		LabelSelector: r.options.LabelSelector, FieldSelector: r.options.FieldSelector,
	}}
	what.target.Subresource = proto.SubresourceRenew
	for (clock.Clock{}).Sleep(ctx, every()) == nil {
		data, err := r.client.envelope(what, r.client.cfg.Operation(), every())
		if err == nil {
			err = r.tell(ctx, what, data, every())
		}
		if err != nil {
			r.client.cfg.Log.DebugContext(ctx, "watch not renewed", "watch", r.scope.Resource, "cause", err)
		}
	}
}

func (r *reader) tell(ctx context.Context, what call, data []byte, patience time.Duration) error {
	ctx, cancel := clock.Clock{}.Timeout(ctx, patience)
	defer cancel()
	_, err := r.client.link.Request(ctx, proto.APIServer, r.client.subject(what), data)
	return err
}
