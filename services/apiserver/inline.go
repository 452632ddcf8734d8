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

// InlineConfig configures an [Inline].
type InlineConfig struct {
	Boot   proto.Boot
	Compat proto.Compat
	// Clock is the clock that it reads. Zero is wall-clock time, or the time of the synctest
	// bubble.
	Clock clock.Clock
	// Image is what its simulated disk has kept; nil means empty.
	Image *store.Image
	// Keep is the least number of changes in the store's history.
	Keep int
	// Entropy is the source of UIDs.
	Entropy io.Reader
	// Hooks calls admission webhooks, and must not block; nil calls none, whatever is stored.
	Hooks webhook.Caller
	// Publish delivers a frame to the watchers of its subject. The frame must not be changed.
	Publish func(subject string, frame *proto.Frame) error
	// History records requests, commits and watches.
	History *history.Recorder
}

// Inline is an apiserver without a bus, a disk and goroutines, for the deterministic simulator,
// which makes one call after the other. It consists of the same parts. It never blocks, and reads
// time from its clock only.
//
// Its answers, frames and records may be delivered once [Inline.Image] is on the simulated disk. It
// has no custom kinds.
type Inline struct {
	server *server
	hub    *watch.Hub
	kept   *store.Memory
}

// NewInline returns an apiserver that continues from an image. An empty image is bootstrapped like
// any new cluster.
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
	cfg.History.Record("", history.StoreOpen{Revision: snapshot.Revision(), Objects: snapshot.Len(), ChecksumsOK: true})
	hooks.Load(snapshot)
	graph.Load(snapshot)
	i.hub = watch.New(watch.Config{
		Boot: cfg.Boot, Store: i.kept, Publish: cfg.Publish, Match: newMatcher(cfg.Compat, catalog), Clock: cfg.Clock, History: cfg.History,
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
	i.server.epochs.load(snapshot)
	return i, api.Bootstrap(ctx)
}

// Call answers one request, in all its parts; a refusal is an answer, too. The envelope is not
// changed.
func (i *Inline) Call(ctx context.Context, subject string, envelope *proto.Request) (parts []*proto.Response, err error) {
	send := func(_ context.Context, part *proto.Response, _ bool) error {
		part.Version, part.Boot = proto.Version, string(i.server.boot)
		parts = append(parts, part)
		return nil
	}
	reason := i.server.handle(ctx, message{subject: subject, envelope: envelope}, send)
	if reason == nil {
		return parts, nil
	}
	refusal, err := verbs.Refusal(asStatusError(reason))
	if err == nil {
		err = send(ctx, refusal, false)
	}
	return parts, err
}

// PublishPending publishes the commits since the last call to all watches.
func (i *Inline) PublishPending(ctx context.Context) { i.hub.PublishPending(ctx) }

// PublishHeartbeats sends a heartbeat to all watches. Call it about every watch.DefaultHeartbeat.
func (i *Inline) PublishHeartbeats(ctx context.Context) { i.hub.PublishHeartbeats(ctx) }

// Revision is that of the last commit.
func (i *Inline) Revision() int64 { return i.kept.Snapshot().Revision() }

// Compact makes the next change forget everything before it, except the last keep changes.
func (i *Inline) Compact(keep int) { i.kept.Compact(keep) }

// Image returns the present state of the store.
func (i *Inline) Image() *store.Image { return i.kept.Image() }
