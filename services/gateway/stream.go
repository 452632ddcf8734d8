package gateway

import (
	"context"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// sharedWatches shares watches between clients. All clients that watch one scope share one watch on
// the bus. An event is decoded once, and encoded once in each requested form.
//
//	bus watch ─► pump ─► node ─► node ─► node ─► …      one list for all readers
//	                      ▲               ▲
//	                    reader          reader          each at its own pace
//
// A reader joins first and then catches up by itself (podapi.Client.CatchUp). It skips events of
// the list that it has seen then. The pump never waits for readers. Nodes that no reader needs are
// garbage.
type sharedWatches struct {
	source watchSource
	pumps  *daemon.Group

	mu      sync.Mutex
	byScope map[proto.WatchScope]*sharedWatch
}

const (
	// progressInterval is how often a shared watch reports its revision, so that each client gets
	// bookmarks in time.
	progressInterval = time.Second
	// maxLag is how many events a reader may be behind before it is dropped.
	maxLag = 10_000
	// sharedWatchDuration is the longest duration of a shared watch; its readers come back.
	sharedWatchDuration = 30 * 24 * time.Hour
)

// watchSource opens watches on the bus; a *podapi.Client is one.
type watchSource interface {
	Watch(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (watch.Interface, error)
}

func newSharedWatches(from watchSource, pumps *daemon.Group) *sharedWatches {
	return &sharedWatches{source: from, pumps: pumps, byScope: map[proto.WatchScope]*sharedWatch{}}
}

// sharedWatch is one watch on the bus. Its fields except started and err are under the lock of
// sharedWatches.
type sharedWatch struct {
	scope   proto.WatchScope
	readers int
	last    *eventNode
	// stop is closed when the last reader has left.
	stop chan struct{}
	// started is closed when the watch has begun or failed with err.
	started chan struct{}
	err     error
}

// eventNode is one event in the list of a watch. event and next are set before set is closed, and
// never change after that. A nil event ends the list.
type eventNode struct {
	number uint64
	// filled is closed once event and next are set.
	filled chan struct{}
	event  *event
	next   *eventNode
}

// event is one change with its encoded frames.
type event struct {
	watch.Event
	revision uint64

	mu     sync.Mutex
	frames map[frameKey][]byte
}

// cachedFrame returns the event's frame under key, and encodes it if needed.
func (e *event) cachedFrame(key frameKey, encode func(watch.Event) ([]byte, error)) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if made, ok := e.frames[key]; ok {
		return made, nil
	}
	made, err := encode(e.Event)
	if err != nil {
		return nil, err
	}
	if e.frames == nil {
		e.frames = map[frameKey][]byte{}
	}
	e.frames[key] = made
	return made, nil
}

// watchReader is a position in the list of a watch. It belongs to one goroutine.
type watchReader struct {
	shared   *sharedWatches
	watch    *sharedWatch
	position *eventNode
}

// join returns a reader of all events in a scope from now on. Close it.
func (s *sharedWatches) join(ctx context.Context, target podapi.Target, opts metav1.ListOptions) (*watchReader, error) {
	scope, err := proto.ScopeFor(target.Kind.GroupResource().String(), target.Namespace, &opts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	joined := s.byScope[scope]
	if joined == nil {
		joined = s.startWatch(scope, target, opts)
	}
	joined.readers++
	r := &watchReader{shared: s, watch: joined, position: joined.last}
	s.mu.Unlock()
	select {
	case <-joined.started:
		err = joined.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// startWatch begins a shared watch. The caller holds the lock.
func (s *sharedWatches) startWatch(scope proto.WatchScope, target podapi.Target, opts metav1.ListOptions) *sharedWatch {
	started := &sharedWatch{scope: scope, last: newEventNode(0), started: make(chan struct{})}
	s.byScope[scope] = started
	options := metav1.ListOptions{
		LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector,
		SendInitialEvents: new(false), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true, TimeoutSeconds: new(int64(sharedWatchDuration / time.Second)),
	}
	started.stop = make(chan struct{})
	s.pumps.Go(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		changes, err := s.source.Watch(ctx, target, options)
		started.err = err
		close(started.started)
		if err == nil {
			s.pump(started, changes)
			changes.Stop()
		}
		s.dropScope(started)
		s.appendEvent(started, nil)
		return nil
	})
	return started
}

// pump appends a watch's events to the list, until the watch ends or the last reader leaves.
func (s *sharedWatches) pump(into *sharedWatch, changes watch.Interface) {
	for {
		select {
		case change, more := <-changes.ResultChan():
			if !more {
				return
			}
			s.appendEvent(into, &event{Event: change, revision: revisionOf(change)})
		case <-into.stop:
			return
		}
	}
}

func newEventNode(number uint64) *eventNode {
	return &eventNode{number: number, filled: make(chan struct{})}
}

func (s *sharedWatches) appendEvent(watched *sharedWatch, event *event) {
	s.mu.Lock()
	filled := watched.last
	watched.last = newEventNode(filled.number + 1)
	filled.event, filled.next = event, watched.last
	s.mu.Unlock()
	close(filled.filled)
}

// dropScope makes the next reader of the scope start a new watch.
func (s *sharedWatches) dropScope(old *sharedWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byScope[old.scope] == old {
		delete(s.byScope, old.scope)
	}
}

// close releases the reader. The last reader ends the watch.
func (r *watchReader) close() {
	s := r.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	r.watch.readers--
	if r.watch.readers == 0 {
		close(r.watch.stop)
		if s.byScope[r.watch.scope] == r.watch {
			delete(s.byScope, r.watch.scope)
		}
	}
}

// ready is closed when next has an event.
func (r *watchReader) ready() <-chan struct{} { return r.position.filled }

// next returns the event at the reader's position; nil at the end, or if the reader is too far
// behind. Wait for ready first.
func (r *watchReader) next() *event {
	r.shared.mu.Lock()
	behind := r.watch.last.number - r.position.number
	r.shared.mu.Unlock()
	if behind > maxLag {
		return nil
	}
	at := r.position
	if at.event != nil {
		r.position = at.next
	}
	return at.event
}

// revisionOf is the revision of a change; 0 for an ERROR.
func revisionOf(change watch.Event) uint64 {
	obj, ok := change.Object.(kinds.Object)
	if !ok {
		return 0
	}
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}
