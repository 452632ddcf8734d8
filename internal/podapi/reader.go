package podapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// reader keeps one watch running:
//
//	subscribe → fetch the backlog → deliver the backlog → join the live stream
//	    ^                                                        |
//	    +------- gap, slow consumer, silence, other boot --------+
//
// The first session may begin with initial events. Every later session asks for what came after the
// cursor's revision.
type reader struct {
	client   *Client
	target   Target
	options  metav1.ListOptions
	scope    proto.WatchScope
	out      chan watch.Event
	deadline time.Time
	cursor   Cursor
	// rng decides the delays before reconnects.
	rng *rng
	// initialEventsEnded is set once the end of the initial events was delivered.
	initialEventsEnded bool
	// lastBookmark is when the consumer last got a bookmark.
	lastBookmark time.Time
	// delivery is what was delivered and not yet recorded in the history.
	delivery delivery
}

// The intervals of a watch, in cluster time.
const (
	maxSilentHeartbeats = 3
	renewInterval       = 20 * time.Second
	finalBookmarkLead   = 2 * time.Second
)

// errOver ends a watch after its consumer got an ERROR.
var errOver = errors.New("the watch is over")

// session is one subscription of the reader, from subscribing to the break.
type session struct {
	live subscription
	// backlog is delivered before live events.
	backlog []*proto.Event
	// join is nil while the apiserver has more backlog.
	join *proto.Join
}

// run delivers sessions, one after the other, until the watch is over.
func (r *reader) run(ctx context.Context, current *session) {
	r.lastBookmark = r.client.cfg.Clock.Steady()
	for {
		err := r.deliverSession(ctx, current)
		r.recordDelivery()
		current.live.Close()
		switch {
		case errors.Is(err, errOver), errors.Is(err, bus.ErrClosed), ctx.Err() != nil:
			return
		case errors.Is(err, bus.ErrForbidden):
			r.endWithError(ctx, apierrors.NewForbidden(r.target.Kind.GroupResource(), "", err))
			return
		}
		r.client.cfg.Log.DebugContext(ctx, "watch resumes", "watch", r.scope.Resource, "revision", r.cursor.Revision, "cause", err)
		if current = r.reconnect(ctx); current == nil {
			return
		}
	}
}

// connect subscribes to the group, so that nothing is missed from here on, and then fetches the
// backlog.
func (r *reader) connect(ctx context.Context, opts metav1.ListOptions) (*session, error) {
	live, err := r.client.link.Subscribe(proto.WatchSubject(r.client.link.Identity().Class(), r.scope), maxQueuedMessages)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.target, err)
	}
	next := &session{live: live}
	if err := r.fetchBacklog(ctx, next, opts); err != nil {
		live.Close()
		return nil, err
	}
	return next, nil
}

// fetchBacklog reads a whole answer as fast as the bus delivers it, independent of the consumer.
func (r *reader) fetchBacklog(ctx context.Context, current *session, opts metav1.ListOptions) error {
	parts, err := r.client.stream(ctx, call{
		verb: proto.VerbWatch, target: r.target, options: &opts,
		attemptTimeout: max(2*maxSilentHeartbeats*r.heartbeatInterval(), minTimeout),
	})
	if err != nil {
		return err
	}
	current.backlog, current.join = nil, nil
	for _, part := range parts {
		current.backlog = append(current.backlog, part.GetEvents()...)
		if part.GetJoin() != nil {
			current.join = part.GetJoin()
		}
	}
	return nil
}

// reconnect retries connect until it succeeds; nil if the watch is over.
func (r *reader) reconnect(ctx context.Context) *session {
	pause := time.Duration(0)
	for clk := (clock.Clock{}); clk.Sleep(ctx, r.rng.durationBetween(pause/2, pause)) == nil; {
		next, err := r.connect(ctx, r.resumeOptions())
		if err == nil {
			return next
		}
		if isPermanent(err) {
			r.endWithError(ctx, err)
			return nil
		}
		pause = min(max(2*pause, 4*minRetryDelay), 2*maxRetryDelay)
	}
	return nil
}

// endWithError ends the watch with an ERROR (WCH-25), unless ctx ends first.
func (r *reader) endWithError(ctx context.Context, err error) {
	status := proto.StatusFrom(err)
	if r.send(ctx, watch.Event{Type: watch.Error, Object: status}) == nil {
		r.delivery.code = status.Code
		r.recordDelivery()
		r.client.cfg.Log.InfoContext(ctx, "watch refused", "watch", r.scope.Resource, "cause", err)
	}
}

// isPermanent reports whether a retry would be refused again.
func isPermanent(err error) bool {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return errors.Is(err, bus.ErrClosed)
	}
	code := refused.Status().Code
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
}

// resumeOptions returns the options that continue after the cursor. A cursor at 0 means an empty
// store before its first write. Nothing can have been delivered then, so the watch starts over.
func (r *reader) resumeOptions() metav1.ListOptions {
	opts := r.options
	opts.SendInitialEvents, opts.ResourceVersionMatch = nil, ""
	opts.ResourceVersion = strconv.FormatUint(r.cursor.Revision, 10)
	return opts
}

// deliverSession delivers the events of a session until it breaks.
func (r *reader) deliverSession(ctx context.Context, current *session) error {
	for {
		initial := r.cursor.Revision == 0 // initial events are ordered by key, so the cursor does not move
		for _, event := range current.backlog {
			if err := r.deliverEvent(ctx, event); err != nil {
				return err
			}
			if !initial {
				r.cursor.Advance(event.GetRevision())
			}
		}
		if current.join != nil {
			break
		}
		if err := r.fetchBacklog(ctx, current, r.resumeOptions()); err != nil {
			return err
		}
	}
	current.backlog = nil
	r.cursor.Join(current.join)
	r.recordDelivery()
	for silent := 0; silent < maxSilentHeartbeats; silent++ {
		heard, err := r.readUntilHeartbeat(ctx, current.live)
		if err != nil {
			return err
		}
		if heard {
			silent = -1
		}
		r.recordDelivery()
		if err := r.sendDueBookmark(ctx); err != nil {
			return err
		}
	}
	return errSilent
}
