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
	client  *Client
	target  Target
	options metav1.ListOptions
	scope   proto.WatchScope
	out     chan watch.Event
	ends    time.Time
	at      Cursor
	// rng decides the delays before reconnects.
	dice *dice
	// initialEventsEnded is set once the end of the initial events was delivered.
	marked bool
	// lastBookmark is when the consumer last got a bookmark.
	bookmarked time.Time
	// delivery is what was delivered and not yet recorded in the history.
	handed took
}

// The rhythm of a watch, in cluster time.
const (
	silentBeats  = 3
	renewEvery   = 20 * time.Second
	lastBookmark = 2 * time.Second
)

// errOver ends a watch after its consumer got an ERROR.
var errOver = errors.New("the watch is over")

// session is one subscription of the reader, from subscribing to the break.
type round struct {
	live subscription
	// backlog is delivered before live events.
	missed []*proto.Event
	// join is nil while the apiserver has more backlog.
	join *proto.Join
}

// run delivers sessions, one after the other, until the watch is over.
func (r *reader) run(ctx context.Context, current *round) {
	r.bookmarked = r.client.cfg.Clock.Steady()
	for {
		err := r.stay(ctx, current)
		r.tellHistory()
		current.live.Close()
		switch {
		case errors.Is(err, errOver), errors.Is(err, bus.ErrClosed), ctx.Err() != nil:
			return
		case errors.Is(err, bus.ErrForbidden):
			r.refuse(ctx, apierrors.NewForbidden(r.target.Kind.GroupResource(), "", err))
			return
		}
		r.client.cfg.Log.DebugContext(ctx, "watch resumes", "watch", r.scope.Resource, "revision", r.at.Revision, "cause", err)
		if current = r.again(ctx); current == nil {
			return
		}
	}
}

// connect subscribes to the group, so that nothing is missed from here on, and then fetches the
// backlog.
func (r *reader) enter(ctx context.Context, opts metav1.ListOptions) (*round, error) {
	live, err := r.client.link.Subscribe(proto.WatchSubject(r.client.link.Identity().Class(), r.scope), queued)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.target, err)
	}
	entered := &round{live: live}
	if err := r.ask(ctx, entered, opts); err != nil {
		live.Close()
		return nil, err
	}
	return entered, nil
}

// fetchBacklog reads a whole answer as fast as the bus delivers it, independent of the consumer.
func (r *reader) ask(ctx context.Context, current *round, opts metav1.ListOptions) error {
	parts, err := r.client.parts(ctx, call{
		verb: proto.VerbWatch, target: r.target, options: &opts,
		patience: max(2*silentBeats*r.heartbeat(), leastTimeout),
	})
	if err != nil {
		return err
	}
	current.missed, current.join = nil, nil
	for _, part := range parts {
		current.missed = append(current.missed, part.GetEvents()...)
		if part.GetJoin() != nil {
			current.join = part.GetJoin()
		}
	}
	return nil
}

// reconnect retries connect until it succeeds; nil if the watch is over.
func (r *reader) again(ctx context.Context) *round {
	pause := time.Duration(0)
	for clk := (clock.Clock{}); clk.Sleep(ctx, r.dice.between(pause/2, pause)) == nil; {
		entered, err := r.enter(ctx, r.resumption())
		if err == nil {
			return entered
		}
		if final(err) {
			r.refuse(ctx, err)
			return nil
		}
		pause = min(max(2*pause, 4*firstPause), 2*longPause)
	}
	return nil
}

// endWithError ends the watch with an ERROR (WCH-25), unless ctx ends first.
func (r *reader) refuse(ctx context.Context, err error) {
	status := proto.StatusFrom(err)
	if r.offer(ctx, watch.Event{Type: watch.Error, Object: status}) == nil {
		r.handed.code = status.Code
		r.tellHistory()
		r.client.cfg.Log.InfoContext(ctx, "watch refused", "watch", r.scope.Resource, "cause", err)
	}
}

// isPermanent reports whether a retry would be refused again.
func final(err error) bool {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return errors.Is(err, bus.ErrClosed)
	}
	code := refused.Status().Code
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
}

// resumeOptions returns the options that continue after the cursor. A cursor at 0 means an empty
// store before its first write. Nothing can have been delivered then, so the watch starts over.
func (r *reader) resumption() metav1.ListOptions {
	opts := r.options
	opts.SendInitialEvents, opts.ResourceVersionMatch = nil, ""
	opts.ResourceVersion = strconv.FormatUint(r.at.Revision, 10)
	return opts
}

// deliverSession delivers the events of a session until it breaks.
func (r *reader) stay(ctx context.Context, current *round) error {
	for {
		initial := r.at.Revision == 0 // they come by key, so the cursor stays before them
		for _, event := range current.missed {
			if err := r.pass(ctx, event); err != nil {
				return err
			}
			if !initial {
				r.at.Reached(event.GetRevision())
			}
		}
		if current.join != nil {
			break
		}
		if err := r.ask(ctx, current, r.resumption()); err != nil {
			return err
		}
	}
	current.missed = nil
	r.at.Join(current.join)
	r.tellHistory()
	for silent := 0; silent < silentBeats; silent++ {
		heard, err := r.beat(ctx, current.live)
		if err != nil {
			return err
		}
		if heard {
			silent = -1
		}
		r.tellHistory()
		if err := r.attend(ctx); err != nil {
			return err
		}
	}
	return errSilent
}
