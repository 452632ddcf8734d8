package watch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

const (
	// backlogLimit is how many events may wait for the hub.
	backlogLimit = 100_000
	// frameLimit is how many bytes of objects a frame holds, unless a single event
	// is larger.
	frameLimit = 256 << 10
)

// backlog holds what the store has committed and the hub has not published.
type backlog struct {
	wake chan struct{}

	mu       sync.Mutex
	events   []store.Event
	revision int64
	// overrun says that events were dropped.
	overrun bool
}

func (b *backlog) add(revision int64, events []store.Event) {
	b.mu.Lock()
	b.revision = revision
	if len(b.events)+len(events) > backlogLimit {
		b.events, b.overrun = nil, true
	} else {
		b.events = append(b.events, events...)
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take empties the backlog.
func (b *backlog) take() (events []store.Event, revision int64, overrun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, revision, overrun = b.events, b.revision, b.overrun
	b.events, b.overrun = nil, false
	return events, revision, overrun
}

// Run publishes until ctx ends, and returns nil.
func (h *Hub) Run(ctx context.Context) error {
	beat := clock.Clock{}.Timer(h.heartbeatInterval())
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.backlog.wake:
			h.publish(ctx, h.nextFrames())
		case <-beat.C:
			h.publish(ctx, h.heartbeatFrames())
			beat.Reset(h.heartbeatInterval())
		}
	}
}

// heartbeatInterval is the wall-clock time to the next heartbeat. If the cluster's clock speeds up
// meanwhile, this heartbeat comes late for readers, and idle ones resume.
func (h *Hub) heartbeatInterval() time.Duration {
	return h.cfg.Clock.ClampWallDuration(leastHeartbeat, h.cfg.Heartbeat)
}

// frame is one message with its subject.
type frame struct {
	subject string
	*proto.Frame
}

// nextFrames returns the frames of every group that the waiting events concern. Frames are
// published in the order of their sequences, because only Run numbers and publishes them.
func (h *Hub) nextFrames() []frame {
	events, revision, overrun := h.backlog.take()
	h.mu.Lock()
	defer h.mu.Unlock()
	if overrun {
		for _, g := range h.groups.sorted {
			g.sequence++
			h.cfg.History.Record("", history.WatchEnd{Watch: g.subject})
		}
	}
	var touched []*group
	for _, event := range events {
		touched = h.matchEvent(event, touched)
	}
	h.revision = max(h.revision, revision)
	var frames []frame
	for _, g := range touched {
		frames = h.appendFrames(frames, g)
		g.pending = nil
	}
	return frames
}

// matchEvent adds the event to the pending ones of each group that it concerns, and the groups that
// had none to touched.
func (h *Hub) matchEvent(event store.Event, touched []*group) []*group {
	key := event.Record.Key
	idx := h.groups.byResource[key.Resource]
	if idx == nil {
		return touched
	}
	before, after := h.views.get(event.Previous), view{}
	if event.Type == store.Deleted {
		delete(h.views.cached, key)
	} else {
		after = h.views.get(event.Record)
	}
	idx.forEachCandidate(before, after, func(g *group) {
		if !g.covers(key) {
			return
		}
		was := before.record != nil && g.matches(before)
		is := after.record != nil && g.matches(after)
		if watchEvent := eventFor(event, was, is); watchEvent != nil {
			if len(g.pending) == 0 {
				touched = append(touched, g)
			}
			g.pending = append(g.pending, watchEvent)
			h.recordEvent(g, event, watchEvent)
		}
	})
	return touched
}

// recordEvent notes for the history what a group is about to be sent.
func (h *Hub) recordEvent(g *group, event store.Event, watchEvent *proto.Event) {
	if h.cfg.History == nil {
		return
	}
	typ, _ := strings.CutPrefix(watchEvent.GetType().String(), "EVENT_TYPE_")
	h.sent = append(h.sent, history.Entry{Cause: event.Cause, Fact: history.WatchEvent{
		Watch: g.subject, Type: typ, Revision: event.Revision,
		UID: string(event.Record.Object.GetUID()), Object: history.Digest(watchEvent.GetObject()),
	}})
}

// appendFrames appends the frames of g's pending events.
func (h *Hub) appendFrames(frames []frame, g *group) []frame {
	for from, size, i := 0, 0, 0; i < len(g.pending); i++ {
		size += len(g.pending[i].GetObject())
		last := i == len(g.pending)-1
		if size < frameLimit && !last {
			continue
		}
		until := int64(g.pending[i].GetRevision())
		if last {
			until = h.revision
		}
		frames = append(frames, h.newFrame(g, until, g.pending[from:i+1]))
		from, size = i+1, 0
	}
	return frames
}

func (h *Hub) newFrame(g *group, revision int64, events []*proto.Event) frame {
	g.sequence++
	return frame{g.subject, &proto.Frame{
		Boot: string(h.cfg.Boot), Sequence: g.sequence, Revision: uint64(revision), Events: events,
	}}
}

// heartbeatFrames drops groups without readers, and returns a frame with the revision for each of
// the others.
func (h *Hub) heartbeatFrames() []frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	idle := h.cfg.Clock.ClampWallDuration(leastGroupIdle, h.cfg.GroupIdle)
	for _, dropped := range h.groups.dropIdle(clock.Clock{}.Now().Add(-idle)) {
		h.cfg.History.Record("", history.WatchEnd{Watch: dropped})
	}
	frames := make([]frame, 0, len(h.groups.sorted))
	for _, g := range h.groups.sorted {
		frames = append(frames, h.newFrame(g, h.revision, nil))
	}
	return frames
}

// EncodeTo returns a Config.Publish that encodes frames and sends them as messages.
func EncodeTo(send func(subject string, data []byte) error) func(string, *proto.Frame) error {
	return func(subject string, frame *proto.Frame) error {
		data, err := protobuf.Marshal(frame)
		if err != nil {
			return err
		}
		return send(subject, data)
	}
}

// publish sends frames. A frame that cannot be sent leaves a gap in its group's sequence, and the
// readers resume.
func (h *Hub) publish(ctx context.Context, frames []frame) {
	var missing map[string]error // by subject; nil in nearly all rounds
	began := h.cfg.History.Now()
	for _, f := range frames {
		if err := h.cfg.Publish(f.subject, f.Frame); err != nil {
			if missing == nil {
				missing = map[string]error{}
			}
			missing[f.subject] = err
		}
	}
	if len(missing) > 0 {
		h.sent = slices.DeleteFunc(h.sent, func(e history.Entry) bool {
			sent, _ := e.Fact.(history.WatchEvent)
			return missing[sent.Watch] != nil
		})
	}
	h.cfg.History.RecordAll(began, h.sent...)
	h.sent = h.sent[:0]
	if len(missing) == 0 {
		return
	}
	for _, subject := range slices.Sorted(maps.Keys(missing)) {
		h.cfg.Log.DebugContext(ctx, "watch events not sent", "watch", subject, "cause", missing[subject])
		h.cfg.History.Record("", history.WatchEnd{Watch: subject})
	}
}
