package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
)

// How often a watch sends a bookmark, and how long before its end the last (WCH-24). All
// times of a watch are the wall's: its client does not live on the cluster's clock.
const (
	bookmarkEvery = time.Minute
	lastBookmark  = 2 * time.Second
)

// watch answers with a stream of events: what there was, then what happens.
func (c *call) watch() error {
	opts, err := listOptions(c.query)
	if err != nil {
		return err
	}
	frames, err := c.framer()
	if err != nil {
		return err
	}
	target := c.target()
	if target.Name != "" {
		opts.FieldSelector = named(opts.FieldSelector, target.Name)
		target.Name = ""
	}
	ctx, cancel := clock.Clock{}.Timeout(c.r.Context(), c.api.WatchDuration(opts.TimeoutSeconds))
	defer cancel()
	live, err := c.streams.join(ctx, target, opts)
	if err != nil {
		return err
	}
	defer live.close()
	past, err := c.api.CatchUp(ctx, target, opts)
	if err != nil {
		return err
	}
	to, err := c.open(ctx, frames)
	if err != nil {
		return err
	}
	defer to.close()
	w := &watching{call: c, target: target, opts: opts, live: live, frames: frames, to: to}
	w.at, _ = strconv.ParseUint(opts.ResourceVersion, 10, 64) // the apiserver has accepted it
	return w.run(to.context(), past)
}

// named adds the name that the path of old has to a selector.
func named(selector, name string) string {
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	if selector != "" {
		byName += "," + selector
	}
	return byName
}

// watching is one client's watch.
type watching struct {
	*call
	target podapi.Target
	opts   metav1.ListOptions
	live   *reader
	frames *framer
	to     sink
	// at is the revision up to which the client has been told everything.
	at         uint64
	bookmarked time.Time
}

// run delivers until the watch ends. However it ends, the answer has begun, so there is no
// error to answer with.
func (w *watching) run(ctx context.Context, past podapi.Backlog) error {
	w.bookmarked = clock.Clock{}.Now()
	for {
		for _, change := range past.Events {
			if !w.send(ctx, &event{Event: change, revision: revisionOf(change)}) || change.Type == watch.Error {
				return nil
			}
		}
		w.at = max(w.at, past.Revision)
		if past.Complete {
			break
		}
		next := w.opts
		next.SendInitialEvents, next.ResourceVersionMatch = nil, ""
		next.ResourceVersion = strconv.FormatUint(w.at, 10)
		var err error
		if past, err = w.api.CatchUp(ctx, w.target, next); err != nil {
			w.send(ctx, &event{Event: watch.Event{Type: watch.Error, Object: statusOf(err)}})
			return nil
		}
	}
	for w.to.flush() == nil && w.more(ctx) {
	}
	return nil
}

// more delivers what is there, once there is something; false when the watch is over.
func (w *watching) more(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.ending:
		return false
	case <-w.live.ready():
	}
	for {
		change := w.live.next()
		if change == nil || !w.pass(ctx, change) {
			return false
		}
		select {
		case <-w.live.ready():
		default:
			return true
		}
	}
}

// pass delivers one live event, unless the client knows it already.
func (w *watching) pass(ctx context.Context, change *event) bool {
	switch {
	case change.Type == watch.Error:
		w.send(ctx, change)
		return false
	case change.Type == watch.Bookmark:
		w.at = max(w.at, change.revision)
		return !w.due(ctx) || w.at != change.revision || w.send(ctx, change)
	case change.revision <= w.at:
		return true
	}
	w.at = change.revision
	going := true
	err := podapi.DeliverWithFaults(ctx, w.cfg.Faults, speaker(w.r), w.target, change.Event, func(told watch.Event) error {
		one := change
		if told.Type == watch.Error {
			one = &event{Event: told}
		}
		going = w.send(ctx, one) && told.Type != watch.Error
		return nil
	})
	return going && err == nil
}

// due reports whether the client is to get a bookmark now.
func (w *watching) due(ctx context.Context) bool {
	if !w.opts.AllowWatchBookmarks {
		return false
	}
	now := clock.Clock{}.Now()
	next := w.bookmarked.Add(bookmarkEvery)
	if end, ok := ctx.Deadline(); ok {
		if last := end.Add(-lastBookmark); w.bookmarked.Before(last) && last.Before(next) {
			next = last
		}
	}
	if now.Before(next) {
		return false
	}
	w.bookmarked = now
	return true
}

// send hands one event to the client; false when it does not take it, or cannot be told.
func (w *watching) send(ctx context.Context, change *event) bool {
	frame, err := w.frames.frame(change)
	if err != nil {
		w.cfg.Log.ErrorContext(ctx, "a watch ends, because an event cannot be encoded", "path", w.r.URL.Path, "cause", err)
		return false
	}
	if w.to.write(frame) != nil {
		return false
	}
	w.counts.events.Add(1, w.kind.Group, w.kind.Version, w.kind.Resource)
	return true
}

// sink is where a watch's frames go.
type sink interface {
	write(frame []byte) error
	flush() error
	// context ends when the client is gone, too.
	context() context.Context
	close()
}

// open begins the answer.
func (c *call) open(ctx context.Context, frames *framer) (sink, error) {
	if webSocket(c.r) {
		return c.upgrade(ctx, frames)
	}
	c.w.Header().Set("Content-Type", frames.contentType())
	c.w.WriteHeader(http.StatusOK)
	return &chunks{ctx: ctx, w: c.w, control: http.NewResponseController(c.w)}, nil
}

// writeTimeout is how long a client may take to read one frame.
const writeTimeout = 30 * time.Second

// chunks is a watch in the body of a response.
type chunks struct {
	ctx     context.Context //nolint:containedctx // of the request that is being answered
	w       http.ResponseWriter
	control *http.ResponseController
	// flushed says that nothing has been written since.
	flushed bool
}

func (s *chunks) write(frame []byte) error {
	if err := s.control.SetWriteDeadline(clock.Clock{}.Now().Add(writeTimeout)); err != nil {
		return err
	}
	s.flushed = false
	_, err := s.w.Write(frame)
	return err
}

func (s *chunks) flush() error {
	if s.flushed {
		return nil
	}
	s.flushed = true
	if err := s.control.Flush(); err != nil {
		return err
	}
	// HTTP/2 resets a stream whose deadline passes, whether anything is being written or not.
	return s.control.SetWriteDeadline(time.Time{})
}

func (s *chunks) context() context.Context { return s.ctx }

func (s *chunks) close() {}
