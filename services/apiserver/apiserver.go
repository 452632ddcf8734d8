// Package apiserver is the process that keeps the cluster's objects, and the only one that decides
// what a DELETE means. Run assembles its parts:
//
//	bus -> server.go      reads a call: subject, envelope, deadline, boot
//	       admission/     which identity may do what
//	       nodegraph/     which objects concern a node
//	       verbs/         a file per verb
//	       registry/      what is special about a kind
//	       custom/        kinds that users define
//	       webhook/       admission webhooks
//	       deletion/      what a DELETE means: rounds 1 and 3
//	       expiry/        the end of Events
//	       store/         bbolt: one revision counter, one fsync per batch
//	       watch/ -> bus  sends changes to every reader after the fsync
//
// It keeps no state outside of the store's file: killed at any moment and started again, it
// continues from the last acknowledged write.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/expiry"
	"github.com/podfall/podfall/services/apiserver/nodegraph"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
	"github.com/podfall/podfall/services/apiserver/watch"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// Config says what an apiserver serves, and where.
type Config struct {
	// Bus is the connection on which it serves, under the identity proto.APIServer. The caller
	// closes it.
	Bus *bus.Conn
	// DataDir holds the store's file; it is created if missing.
	DataDir string
	// Clock is the cluster's time.
	Clock clock.Clock
	// Compat is the release that is imitated; zero means the default release.
	Compat proto.Compat
	// Boot identifies this incarnation.
	Boot proto.Boot
	// Keep is how many changes the store keeps in its history; 0 means 100,000.
	Keep int
	// Observers are told of requests, commits and watches, and may ask what was refused.
	inspect.Observers[inspect.APIServer]
	// DisablePlugins names admission plugins to leave out; see [Plugins].
	DisablePlugins []string
	// Faults are injected at the store's fault points; nil injects none.
	Faults *fault.Table
	// NoSync leaves out the fsync, for tests that do not crash.
	NoSync bool
	// Log is nil for none.
	Log *slog.Logger
	// Ready is called once, when requests are about to be served; it may be nil.
	Ready func()
}

// storeFile is the name of the store's file in DataDir.
const storeFile = "apiserver.db"

// Run serves until ctx ends, and then returns nil. It returns an error if the store cannot be read
// (the file is then unchanged), or a *store.CommitError if the store cannot be written any more.
// After a CommitError nothing has been acknowledged.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = withDefaults(cfg)
	if err != nil {
		return err
	}
	enabled, err := Plugins(cfg.DisablePlugins)
	if err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	catalog, hooks, graph := &custom.Catalog{}, &webhook.Catalog{}, &nodegraph.Graph{}
	var kept *store.Store
	var hub *watch.Hub // tells of commits, and reads the store that makes them
	var janitor *custom.Janitor
	var keeper *expiry.Keeper
	kept, err = store.Open(ctx, store.Config{
		Path: filepath.Join(cfg.DataDir, storeFile), Clock: cfg.Clock, Log: cfg.Log,
		History: cfg.Keep, NoSync: cfg.NoSync, Faults: cfg.Faults,
		OnDurable: func(snapshot *store.Snapshot, events []store.Event) { recordCommits(cfg.History, snapshot, events) },
		OnCommit: func(snapshot *store.Snapshot, events []store.Event) {
			recordSync(cfg.History, snapshot, kept.Oldest()-1)
			catalog.OnCommit(events)
			hooks.OnCommit(events)
			graph.OnCommit(events)
			hub.OnCommit(snapshot, events)
			janitor.OnCommit(events)
			keeper.OnCommit(events)
		},
	})
	if err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	recordOpen(cfg.History, kept)
	catalog.Load(kept.Snapshot())
	hooks.Load(kept.Snapshot())
	graph.Load(kept.Snapshot())
	hub = watch.New(watch.Config{
		Boot: cfg.Boot, Store: kept, Publish: watch.EncodeTo(cfg.Bus.Publish), Match: newMatcher(cfg.Compat, catalog), Clock: cfg.Clock,
		Log: cfg.Log, History: cfg.History,
	})
	api := verbs.New(verbs.Config{
		Store: kept, Hub: hub, Clock: cfg.Clock, Compat: cfg.Compat, Custom: catalog, Graph: graph, Plugins: enabled,
	})
	caller := &webhook.Client{Resolve: func(service admissionregistrationv1.ServiceReference) (string, error) {
		return webhook.Resolve(kept.Snapshot(), service)
	}}
	defer caller.Close()
	api.Hooks = &webhook.Dispatcher{
		Catalog: hooks, Caller: caller, Versions: api.Versions, Decode: api.DecodeStored, NewUID: api.NewUID,
		History: cfg.History, Log: cfg.Log,
	}
	server := newServer(cfg, api)
	janitor = custom.NewJanitor(custom.Janitor{
		Catalog: catalog, Snapshot: kept.Snapshot, Writer: definitionWriter{server}, EndWatches: hub.EndWatches, Clock: cfg.Clock, Log: cfg.Log,
	})
	keeper = expiry.New(expiry.Config{
		Commit: kept.Commit, Clock: cfg.Clock, NewUID: api.NewUID, History: cfg.History, Log: cfg.Log,
	})
	keeper.Load(kept.Snapshot())
	server.epochs.load(kept.Snapshot())
	cfg.ProvideInspect(server.inspect)
	if err := daemon.Run(ctx, recordStoreError(cfg.History, kept.Run), hub.Run, janitor.Run, keeper.Run, server.run); err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	return nil
}

// withDefaults fills in optional fields and creates the data directory.
func withDefaults(cfg Config) (Config, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ready == nil {
		cfg.Ready = func() {}
	}
	if cfg.Compat.Release == "" {
		compat, err := proto.CompatFor(proto.DefaultRelease)
		if err != nil {
			return cfg, fmt.Errorf("apiserver: %w", err)
		}
		cfg.Compat = compat
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return cfg, fmt.Errorf("apiserver: %w", err)
	}
	return cfg, nil
}

// Plugins returns the admission plugins except those that are switched off, by upstream's names.
func Plugins(off []string) ([]string, error) {
	all := admission.Plugins()
	for _, name := range off {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("disable-admission-plugins %q: want names of %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(off, name) }), nil
}

// newMatcher returns a function that returns what selectors see of an object.
func newMatcher(compat proto.Compat, catalog *custom.Catalog) func(resource string, obj kinds.Object) (labels.Set, fields.Set) {
	builtIn := registry.Strategies(compat)
	return func(resource string, obj kinds.Object) (labels.Set, fields.Set) {
		if strategy, ok := builtIn[resource]; ok {
			return labels.Set(obj.GetLabels()), strategy.Fields(obj)
		}
		return labels.Set(obj.GetLabels()), catalog.Fields(resource, obj)
	}
}
