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

const (
	// bookmarkInterval is the wall-clock time between two bookmarks. finalBookmarkLead is the time
	// between the last bookmark and the watch's end (WCH-24). All times of a watch are wall-clock
	// times: its client does not use the cluster's clock.
	bookmarkInterval  = time.Minute
	finalBookmarkLead = 2 * time.Second
)

// serveWatch streams the initial events and then the live ones.
func (c *call) serveWatch() error {
	opts, err := listOptions(c.query)
	if err != nil {
		return err
	}
	frames, err := c.newFramer()
	if err != nil {
		return err
	}
	target := c.target()
	if target.Name != "" {
		opts.FieldSelector = withName(opts.FieldSelector, target.Name)
		target.Name = ""
	}
	ctx, cancel := clock.Clock{}.Timeout(c.r.Context(), c.api.WatchDuration(opts.TimeoutSeconds))
	defer cancel()
	reader, err := c.streams.join(ctx, target, opts)
	if err != nil {
		return err
	}
	defer reader.close()
	backlog, err := c.api.CatchUp(ctx, target, opts)
	if err != nil {
		return err
	}
	out, err := c.openSink(ctx, frames)
	if err != nil {
		return err
	}
	defer out.close()
	w := &clientWatch{call: c, target: target, opts: opts, reader: reader, frames: frames, out: out}
	w.revision, _ = strconv.ParseUint(opts.ResourceVersion, 10, 64) // the apiserver has accepted it
	return w.run(out.context(), backlog)
}

// withName adds a name to a field selector, for the deprecated watch path.
func withName(selector, name string) string {
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	if selector != "" {
		byName += "," + selector
	}
	return byName
}

// clientWatch is one client's watch.
type clientWatch struct {
	*call
	target podapi.Target
	opts   metav1.ListOptions
	reader *watchReader
	frames *framer
	out    sink
	// revision is the revision up to which the client has received all events.
	revision       uint64
	lastBookmarkAt time.Time
}

// run delivers until the watch ends. The answer has begun, so no error can be returned to the
// client.
func (w *clientWatch) run(ctx context.Context, backlog podapi.Backlog) error {
	w.lastBookmarkAt = clock.Clock{}.Now()
	for {
		for _, change := range backlog.Events {
			if !w.sendEvent(ctx, &event{Event: change, revision: revisionOf(change)}) || change.Type == watch.Error {
				return nil
			}
		}
		w.revision = max(w.revision, backlog.Revision)
		if backlog.Complete {
			break
		}
		next := w.opts
		next.SendInitialEvents, next.ResourceVersionMatch = nil, ""
		next.ResourceVersion = strconv.FormatUint(w.revision, 10)
		var err error
		if backlog, err = w.api.CatchUp(ctx, w.target, next); err != nil {
			w.sendEvent(ctx, &event{Event: watch.Event{Type: watch.Error, Object: statusOf(err)}})
			return nil
		}
	}
	for w.out.flush() == nil && w.deliverReady(ctx) {
	}
	return nil
}

// deliverReady waits for an event and delivers all that are ready; false if the watch is over.
func (w *clientWatch) deliverReady(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.ending:
		return false
	case <-w.reader.ready():
	}
	for {
		change := w.reader.next()
		if change == nil || !w.deliver(ctx, change) {
			return false
		}
		select {
		case <-w.reader.ready():
		default:
			return true
		}
	}
}

// deliver delivers one live event, unless the client has it already.
func (w *clientWatch) deliver(ctx context.Context, change *event) bool {
	switch {
	case change.Type == watch.Error:
		w.sendEvent(ctx, change)
		return false
	case change.Type == watch.Bookmark:
		w.revision = max(w.revision, change.revision)
		return !w.isBookmarkDue(ctx) || w.revision != change.revision || w.sendEvent(ctx, change)
	case change.revision <= w.revision:
		return true
	}
	w.revision = change.revision
	going := true
	err := podapi.DeliverWithFaults(ctx, w.cfg.Faults, clientName(w.r), w.target, change.Event, func(delivered watch.Event) error {
		sent := change
		if delivered.Type == watch.Error {
			sent = &event{Event: delivered}
		}
		going = w.sendEvent(ctx, sent) && delivered.Type != watch.Error
		return nil
	})
	return going && err == nil
}

// isBookmarkDue reports whether the client gets a bookmark now.
func (w *clientWatch) isBookmarkDue(ctx context.Context) bool {
	if !w.opts.AllowWatchBookmarks {
		return false
	}
	now := clock.Clock{}.Now()
	next := w.lastBookmarkAt.Add(bookmarkInterval)
	if end, ok := ctx.Deadline(); ok {
		if last := end.Add(-finalBookmarkLead); w.lastBookmarkAt.Before(last) && last.Before(next) {
			next = last
		}
	}
	if now.Before(next) {
		return false
	}
	w.lastBookmarkAt = now
	return true
}

// sendEvent sends one event to the client; false if that fails.
func (w *clientWatch) sendEvent(ctx context.Context, change *event) bool {
	frame, err := w.frames.frameEvent(change)
	if err != nil {
		w.cfg.Log.ErrorContext(ctx, "a watch ends, because an event cannot be encoded", "path", w.r.URL.Path, "cause", err)
		return false
	}
	if w.out.write(frame) != nil {
		return false
	}
	w.telemetry.events.Add(1, w.kind.Group, w.kind.Version, w.kind.Resource)
	return true
}

// sink writes a watch's frames to a client.
type sink interface {
	write(frame []byte) error
	flush() error
	// context ends with the client's connection, too.
	context() context.Context
	close()
}

// openSink begins the answer.
func (c *call) openSink(ctx context.Context, frames *framer) (sink, error) {
	if wantsWebSocket(c.r) {
		return c.upgradeWatch(ctx, frames)
	}
	c.w.Header().Set("Content-Type", frames.contentType())
	c.w.WriteHeader(http.StatusOK)
	return &responseSink{ctx: ctx, w: c.w, control: http.NewResponseController(c.w)}, nil
}

// writeTimeout is how long a client may take to read one frame.
const writeTimeout = 30 * time.Second

// responseSink writes a watch into the body of a response.
type responseSink struct {
	ctx     context.Context //nolint:containedctx // of the request that is being answered
	w       http.ResponseWriter
	control *http.ResponseController
	// flushed means that nothing has been written since the last flush.
	flushed bool
}

func (s *responseSink) write(frame []byte) error {
	if err := s.control.SetWriteDeadline(clock.Clock{}.Now().Add(writeTimeout)); err != nil {
		return err
	}
	s.flushed = false
	_, err := s.w.Write(frame)
	return err
}

func (s *responseSink) flush() error {
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

func (s *responseSink) context() context.Context { return s.ctx }

func (s *responseSink) close() {}
