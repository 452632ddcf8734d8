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

// streams shares watches: however many clients watch one scope, there is one watch of it
// on the bus, an event is decoded once, and encoded once in each form that is wanted.
//
//	bus watch ─► pump ─► link ─► link ─► link ─► …      one list for all readers
//	                      ▲               ▲
//	                    reader          reader          each at its own pace
//
// A reader that joins catches up by itself (podapi.Client.CatchUp) after it has joined, and
// passes over what it then finds in the list a second time. The pump never waits for
// readers: what none of them needs any longer is garbage.
type streams struct {
	source source
	pumps  *daemon.Group

	mu      sync.Mutex
	byScope map[proto.WatchScope]*stream
}

const (
	// progress is how often a shared watch tells its readers of the revision, so that
	// each can send bookmarks when it likes.
	progress = time.Second
	// furthest is how many events a reader may be behind before it is dropped.
	furthest = 10_000
	// streamLasts is how long a shared watch goes on at most; its readers come back.
	streamLasts = 30 * 24 * time.Hour
)

// source opens watches on the bus; a *podapi.Client is one.
type source interface {
	Watch(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (watch.Interface, error)
}

func newStreams(from source, pumps *daemon.Group) *streams {
	return &streams{source: from, pumps: pumps, byScope: map[proto.WatchScope]*stream{}}
}

// stream is one shared watch. Its fields but started and err are under streams' lock.
type stream struct {
	scope   proto.WatchScope
	readers int
	newest  *link
	// stop is closed when the last reader has left.
	stop chan struct{}
	// started is closed when the watch has begun, or err says why not.
	started chan struct{}
	err     error
}

// link is one event in the list of a stream. Event and next are set before set is closed,
// and not changed after; an event that is nil is the end of the stream.
type link struct {
	number uint64
	set    chan struct{}
	event  *event
	next   *link
}

// event is one change, and its frames in the forms that were asked for.
type event struct {
	watch.Event
	revision uint64

	mu     sync.Mutex
	frames map[frameKey][]byte
}

// frame is the event's frame under key, made by encode if it has not been yet.
func (e *event) frame(key frameKey, encode func(watch.Event) ([]byte, error)) ([]byte, error) {
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

// reader is a place in the list of a stream. It belongs to one goroutine.
type reader struct {
	streams *streams
	stream  *stream
	at      *link
}

// join is a reader of everything that happens in a scope from now on. Close it.
func (s *streams) join(ctx context.Context, target podapi.Target, opts metav1.ListOptions) (*reader, error) {
	scope, err := proto.ScopeFor(target.Kind.GroupResource().String(), target.Namespace, &opts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	joined := s.byScope[scope]
	if joined == nil {
		joined = s.start(scope, target, opts)
	}
	joined.readers++
	r := &reader{streams: s, stream: joined, at: joined.newest}
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

// start begins a shared watch, under the lock.
func (s *streams) start(scope proto.WatchScope, target podapi.Target, opts metav1.ListOptions) *stream {
	begun := &stream{scope: scope, newest: newLink(0), started: make(chan struct{})}
	s.byScope[scope] = begun
	live := metav1.ListOptions{
		LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector,
		SendInitialEvents: new(false), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true, TimeoutSeconds: new(int64(streamLasts / time.Second)),
	}
	begun.stop = make(chan struct{})
	s.pumps.Go(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		changes, err := s.source.Watch(ctx, target, live)
		begun.err = err
		close(begun.started)
		if err == nil {
			s.pump(begun, changes)
			changes.Stop()
		}
		s.forget(begun)
		s.append(begun, nil)
		return nil
	})
	return begun
}

// pump puts what a watch delivers into the list, until it ends or nobody reads it.
func (s *streams) pump(into *stream, changes watch.Interface) {
	for {
		select {
		case change, more := <-changes.ResultChan():
			if !more {
				return
			}
			s.append(into, &event{Event: change, revision: revisionOf(change)})
		case <-into.stop:
			return
		}
	}
}

func newLink(number uint64) *link { return &link{number: number, set: make(chan struct{})} }

func (s *streams) append(to *stream, change *event) {
	s.mu.Lock()
	filled := to.newest
	to.newest = newLink(filled.number + 1)
	filled.event, filled.next = change, to.newest
	s.mu.Unlock()
	close(filled.set)
}

// forget makes the next reader of the scope start a stream of its own.
func (s *streams) forget(old *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byScope[old.scope] == old {
		delete(s.byScope, old.scope)
	}
}

// close gives the place up. The last reader ends the stream.
func (r *reader) close() {
	s := r.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	r.stream.readers--
	if r.stream.readers == 0 {
		close(r.stream.stop)
		if s.byScope[r.stream.scope] == r.stream {
			delete(s.byScope, r.stream.scope)
		}
	}
}

// ready is closed when next has something to say.
func (r *reader) ready() <-chan struct{} { return r.at.set }

// next is the event at the reader's place; nil at the end of the stream, or when the
// reader is too far behind. It is for after ready.
func (r *reader) next() *event {
	r.streams.mu.Lock()
	behind := r.stream.newest.number - r.at.number
	r.streams.mu.Unlock()
	if behind > furthest {
		return nil
	}
	at := r.at
	if at.event != nil {
		r.at = at.next
	}
	return at.event
}

// revisionOf is the revision of a change; 0 of an ERROR.
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
