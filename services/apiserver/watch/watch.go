// Package watch tells readers what happens in the store. Readers of one class that
// select the same objects form a group: each change is matched, encoded and published
// once for a group, however many read it. Start here; open.go is how a reader catches
// up and joins, publish.go is the live stream, transition.go and start.go are the rules.
//
//	reader                         hub                              store
//	  | subscribe watch.<class>.<g>  |                                |
//	  |--- watch, rv=N ------------->| position: sequence s           |
//	  |                              |--- snapshot, events after N -->|
//	  |<-- parts: events ------------|                                |
//	  |<-- join: s, revision --------|                                |
//	  |<== frame s+1, s+2, … ========|<------- OnCommit --------------|
//	  |--- renew, every 20 s ------->|                                |
//
// # Order
//
// A group's frames have gapless sequences within one boot, and their events have rising
// revisions. A position is taken before the snapshot that a reader catches up with, so
// between the two nothing is lost; what is in both, the reader knows by its revision.
// A sequence is never used for two frames, also when a group is dropped and made again.
//
// # Blocking
//
// OnCommit appends to a queue and returns. A hub that is more than 100,000 events
// behind forgets them and leaves a hole in every sequence, which makes readers resume
// from the store's history. A reader that is slow to catch up blocks its own call.
package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Store is what the hub reads.
type Store interface {
	Snapshot() *store.Snapshot
	// SinceAtMost is the first limit events after revision, or store.ErrCompacted.
	SinceAtMost(revision int64, limit int) ([]store.Event, error)
	// Oldest is the first revision whose event is still there.
	Oldest() int64
	WaitFor(ctx context.Context, revision int64) error
}

// Config is what a hub is made of. Boot, Store, Publish and Match are required.
type Config struct {
	// Boot is the apiserver's incarnation.
	Boot proto.Boot
	// Store has its OnCommit set to the hub's.
	Store Store
	// Publish hands a frame to the bus, as [Encoded] does; it may fail, which readers notice.
	// The frame and its events are not changed any more.
	Publish func(subject string, frame *proto.Frame) error
	// Match is what selectors see of an object. Its results are not changed.
	Match func(resource string, obj kinds.Object) (labels.Set, fields.Set)
	// Clock is the cluster's time.
	Clock clock.Clock
	// Heartbeat is how often an idle group is told the revision; 1 s when zero, so
	// that a reader that has lost something is right again within 5 s.
	Heartbeat time.Duration
	// GroupIdle is how long a group lasts without a renewal; 60 s when zero.
	GroupIdle time.Duration
	// Log is nil for none.
	Log *slog.Logger
	// History is told which groups there are and what they were sent; nil for nobody.
	History *history.Recorder
}

// The defaults of Config, and the least that each is on the wall, however fast the
// cluster's clock runs.
const (
	DefaultHeartbeat = time.Second
	DefaultGroupIdle = time.Minute

	leastHeartbeat = 100 * time.Millisecond
	leastGroupIdle = 6 * time.Second
)

// Hub is all groups of one apiserver. It is safe for concurrent use.
type Hub struct {
	cfg     Config
	backlog backlog

	mu     sync.Mutex
	groups groups
	// revision up to which every group's frames have their sequence.
	revision int64
	views    views
	// sent is what History is to be told of the frames that are being made.
	sent []history.Entry
}

// Request is one reader's wish.
type Request struct {
	// Class is the identity class of the reader: proto.Identity.Class.
	Class string
	// Scope is what proto.ScopeFor says of the options.
	Scope proto.WatchScope
	// Options have been validated (WCH-04).
	Options metav1.ListOptions
}

// New is a hub that has nothing to tell yet. Run publishes.
func New(cfg Config) *Hub {
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = DefaultHeartbeat
	}
	if cfg.GroupIdle <= 0 {
		cfg.GroupIdle = DefaultGroupIdle
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Hub{
		cfg:      cfg,
		backlog:  backlog{wake: make(chan struct{}, 1)},
		groups:   groups{byReaders: map[readers]*group{}, byResource: map[string]*index{}},
		revision: cfg.Store.Snapshot().Revision(),
		views:    views{match: cfg.Match, kept: map[store.Key]view{}},
	}
}

// OnCommit is told of every committed batch, in order, by the store's writer. It never
// waits for anything but another short look at the queue.
func (h *Hub) OnCommit(snapshot *store.Snapshot, events []store.Event) {
	h.backlog.add(snapshot.Revision(), events)
}

// Forget ends every watch of a resource that is served no longer: at the next heartbeat its
// groups fall silent, and their readers, who then ask again, are told that it is not there.
func (h *Hub) Forget(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.groups.inOrder {
		if g.scope.Resource == resource {
			g.renewed = time.Time{}
		}
	}
}

// Renew keeps a group alive; false when there is none, and its reader should ask again.
func (h *Hub) Renew(class string, scope proto.WatchScope) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.groups.renew(readers{class, scope}, clock.Clock{}.Now())
}
