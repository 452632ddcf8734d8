package apiserver

import (
	"context"
	"io"
	"log/slog"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/nodegraph"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
	"github.com/podfall/podfall/services/apiserver/watch"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// InlineConfig is what an [Inline] is made of.
type InlineConfig struct {
	Boot   proto.Boot
	Compat proto.Compat
	// Clock is what it reads; the zero one is the wall's, or that of the bubble that it is in.
	Clock clock.Clock
	// Image is what its disk has kept; nil for an empty one.
	Image *store.Image
	// Keep is how many changes the store remembers at least.
	Keep int
	// Entropy is what UIDs are drawn from.
	Entropy io.Reader
	// Hooks asks admission webhooks, and may not wait; nil asks none, whatever is stored.
	Hooks webhook.Caller
	// Publish hands a frame to those who watch its subject. Nobody changes it any more.
	Publish func(subject string, frame *proto.Frame) error
	// History is told of requests, commits and watches.
	History *history.Recorder
}

// Inline is an apiserver without a bus, a disk and goroutines: the same parts behind the
// same doors, for whoever plays the rest and hands it one call after the other. It waits
// for nothing, and asks its clock for the time.
//
// What it answers, publishes and records may go out once [Inline.Image] is on disk. It has
// no custom kinds.
type Inline struct {
	server *server
	hub    *watch.Hub
	kept   *store.Memory
}

// NewInline is an apiserver that goes on where an image left it; an empty one is filled as
// any cluster is.
func NewInline(ctx context.Context, cfg InlineConfig) (*Inline, error) {
	i := &Inline{}
	enabled, err := Plugins(nil)
	if err != nil {
		return nil, err
	}
	catalog, hooks, graph := &custom.Catalog{}, &webhook.Catalog{}, &nodegraph.Graph{}
	i.kept = store.NewMemory(cfg.Image, cfg.Keep, func(snapshot *store.Snapshot, events []store.Event) {
		recordCommits(cfg.History, snapshot, events)
		recordSync(cfg.History, snapshot, i.kept.Oldest()-1)
		hooks.OnCommit(events)
		graph.OnCommit(events)
		i.hub.OnCommit(snapshot, events)
	})
	snapshot := i.kept.Snapshot()
	cfg.History.Note("", history.StoreOpen{Revision: snapshot.Revision(), Objects: snapshot.Len(), Sound: true})
	hooks.Load(snapshot)
	graph.Load(snapshot)
	i.hub = watch.New(watch.Config{
		Boot: cfg.Boot, Store: i.kept, Publish: cfg.Publish, Match: matcher(cfg.Compat, catalog), Clock: cfg.Clock, History: cfg.History,
	})
	api := verbs.New(verbs.Config{
		Store: i.kept, Hub: i.hub, Clock: cfg.Clock, Compat: cfg.Compat, Custom: catalog, Graph: graph, Plugins: enabled, Entropy: cfg.Entropy,
		Deleters: 1, // one after the other, so that a call does the same each time
	})
	own := Config{Boot: cfg.Boot, Clock: cfg.Clock, Log: slog.New(slog.DiscardHandler)}
	if cfg.Hooks != nil {
		api.Hooks = &webhook.Dispatcher{
			Catalog: hooks, Caller: cfg.Hooks, Versions: api.Versions, Decode: api.DecodeStored, NewUID: api.NewUID,
			History: cfg.History, Log: own.Log,
		}
	}
	own.History = cfg.History
	i.server = newServer(own, api)
	i.server.fence.recall(snapshot)
	return i, api.Bootstrap(ctx)
}

// Call answers one request, in all its parts; a refusal is one, too. The envelope is not
// changed.
func (i *Inline) Call(ctx context.Context, subject string, envelope *proto.Request) (parts []*proto.Response, err error) {
	send := func(_ context.Context, part *proto.Response, _ bool) error {
		part.Version, part.Boot = proto.Version, string(i.server.boot)
		parts = append(parts, part)
		return nil
	}
	reason := i.server.carryOut(ctx, message{subject: subject, envelope: envelope}, send)
	if reason == nil {
		return parts, nil
	}
	refusal, err := verbs.Refusal(worded(reason))
	if err == nil {
		err = send(ctx, refusal, false)
	}
	return parts, err
}

// Tell publishes what has been committed since it was called last, to all watches.
func (i *Inline) Tell(ctx context.Context) { i.hub.PublishPending(ctx) }

// Beat is the heartbeat of all watches, due every watch.DefaultHeartbeat or so.
func (i *Inline) Beat(ctx context.Context) { i.hub.PublishHeartbeats(ctx) }

// Revision is that of the last commit.
func (i *Inline) Revision() int64 { return i.kept.Snapshot().Revision() }

// Compact has the next change forget all that was before it but the last keep changes.
func (i *Inline) Compact(keep int) { i.kept.Compact(keep) }

// Image is the store as it is.
func (i *Inline) Image() *store.Image { return i.kept.Image() }
