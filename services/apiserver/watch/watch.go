// Package watch sends the changes of the store to readers. Readers of one class that select the
// same objects form a group: each change is matched, encoded and published once for a group,
// however many read it. Start here; open.go is how a reader catches up and joins, publish.go is the
// live stream, transition.go and start.go are the rules.
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
// A group's frames have gapless sequences within one boot, and their events have rising revisions.
// A reader's position is taken before the snapshot that it catches up with, so no event between the
// two is lost. The reader recognizes an event that is in both by its revision. No two frames have
// the same sequence, also if a group is dropped and made again.
//
// # Blocking
//
// OnCommit appends to a queue and returns. A hub that is more than 100,000 events behind drops them
// and leaves a gap in every sequence, which makes readers resume from the store's history. A reader
// that is slow to catch up blocks its own call only.
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
	// SinceAtMost returns the first limit events after revision, or store.ErrCompacted.
	SinceAtMost(revision int64, limit int) ([]store.Event, error)
	// Oldest returns the first revision whose event is still in the history.
	Oldest() int64
	WaitFor(ctx context.Context, revision int64) error
}

// Config configures a hub. Boot, Store, Publish and Match are required.
type Config struct {
	// Boot is the apiserver's incarnation.
	Boot proto.Boot
	// Store must call the hub's OnCommit.
	Store Store
	// Publish sends a frame on the bus, as [EncodeTo] does. Readers notice a failed one by the gap.
	// The frame and its events must not be changed.
	Publish func(subject string, frame *proto.Frame) error
	// Match returns what selectors see of an object. Its results must not be changed.
	Match func(resource string, obj kinds.Object) (labels.Set, fields.Set)
	// Clock is the cluster's time.
	Clock clock.Clock
	// Heartbeat is how often an idle group is sent the revision; zero means 1 s, so that a reader
	// that has missed a frame resumes within 5 s.
	Heartbeat time.Duration
	// GroupIdle is how long a group lasts without a renewal; zero means 60 s.
	GroupIdle time.Duration
	// Log is nil for none.
	Log *slog.Logger
	// History records which groups exist and what they were sent; nil records nothing.
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

// Hub holds all watch groups of one apiserver. It is safe for concurrent use.
type Hub struct {
	cfg     Config
	backlog backlog

	mu     sync.Mutex
	groups groups
	// revision up to which every group's frames have their sequence.
	revision int64
	views    viewCache
	// sent holds what History is to record of the frames that are being made.
	sent []history.Entry
}

// Request is one reader's watch request.
type Request struct {
	// Class is the identity class of the reader: proto.Identity.Class.
	Class string
	// Scope is what proto.ScopeFor says of the options.
	Scope proto.WatchScope
	// Options have been validated (WCH-04).
	Options metav1.ListOptions
}

// New returns a hub without groups. Run publishes.
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
		groups:   groups{byKey: map[groupKey]*group{}, byResource: map[string]*index{}},
		revision: cfg.Store.Snapshot().Revision(),
		views:    viewCache{match: cfg.Match, cached: map[store.Key]view{}},
	}
}

// OnCommit queues every committed batch, in order; the store's writer calls it. It blocks on
// nothing but a short lock of the queue.
func (h *Hub) OnCommit(snapshot *store.Snapshot, events []store.Event) {
	h.backlog.add(snapshot.Revision(), events)
}

// EndWatches ends every watch of a resource that is no longer served. At the next heartbeat its
// groups fall silent. Their readers then ask again, and get a 404.
func (h *Hub) EndWatches(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.groups.sorted {
		if g.scope.Resource == resource {
			g.renewed = time.Time{}
		}
	}
}

// Renew keeps a group alive. It returns false if there is no such group; the reader should then ask
// again.
func (h *Hub) Renew(class string, scope proto.WatchScope) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.groups.renew(groupKey{class, scope}, clock.Clock{}.Now())
}
