// Package apiserver is the process that keeps the cluster's objects, and the only one
// that decides what a DELETE means. Run is its list of parts:
//
//	bus -> server.go      reads a call: subject, envelope, deadline, boot
//	       admission/     who may do what
//	       verbs/         a file per verb
//	       registry/      what is special about a kind
//	       custom/        kinds that users define
//	       webhook/       those who want to be asked
//	       deletion/      what a DELETE means: rounds 1 and 3
//	       store/         bbolt: one revision counter, one fsync per batch
//	       watch/ -> bus  tells every reader after the fsync
//
// It keeps no state of its own beside the store's file: killed at any moment and started
// again, it goes on where the last acknowledged write left it.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
	"github.com/podfall/podfall/services/apiserver/watch"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// Config says what an apiserver serves, and where.
type Config struct {
	// Bus is the connection on which it serves, under the identity proto.APIServer. It
	// stays the caller's.
	Bus *bus.Conn
	// DataDir holds the store's file; it is created when missing.
	DataDir string
	// Clock is the cluster's time.
	Clock clock.Clock
	// Compat is the release that is imitated; the zero value is the default one.
	Compat proto.Compat
	// Boot is this incarnation.
	Boot proto.Boot
	// History is how many events the store keeps; 0 means 100,000.
	History int
	// DisablePlugins names admission plugins to leave out; see admission.Plugins.
	DisablePlugins []string
	// NoSync leaves out the fsync, for tests that do not crash.
	NoSync bool
	// Log is nil for none.
	Log *slog.Logger
	// Ready is called once, when requests are about to be answered; it may be nil.
	Ready func()
}

// file is the store's in DataDir.
const file = "apiserver.db"

// Run serves until ctx ends, and then returns nil. It returns an error when the store
// cannot be read (it is then as it was) or no longer be written: a *store.CommitError,
// after which nothing has been acknowledged.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = complete(cfg)
	if err != nil {
		return err
	}
	catalog, hooks := &custom.Catalog{}, &webhook.Catalog{}
	var hub *watch.Hub // tells of commits, and reads the store that makes them
	var janitor *custom.Janitor
	kept, err := store.Open(ctx, store.Config{
		Path: filepath.Join(cfg.DataDir, file), Clock: cfg.Clock, Log: cfg.Log,
		History: cfg.History, NoSync: cfg.NoSync,
		OnCommit: func(snapshot *store.Snapshot, events []store.Event) {
			catalog.OnCommit(events)
			hooks.OnCommit(events)
			hub.OnCommit(snapshot, events)
			janitor.OnCommit(events)
		},
	})
	if err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	catalog.Load(kept.Snapshot())
	hooks.Load(kept.Snapshot())
	hub = watch.New(watch.Config{
		Boot: cfg.Boot, Store: kept, Publish: cfg.Bus.Publish, Match: matcher(cfg.Compat, catalog), Clock: cfg.Clock, Log: cfg.Log,
	})
	api := verbs.New(verbs.Config{Store: kept, Hub: hub, Clock: cfg.Clock, Compat: cfg.Compat, Custom: catalog, Plugins: plugins(cfg.DisablePlugins)})
	caller := &webhook.Client{Resolve: func(service admissionregistrationv1.ServiceReference) (string, error) {
		return webhook.Resolve(kept.Snapshot(), service)
	}}
	defer caller.Close()
	api.Hooks = &webhook.Dispatcher{
		Catalog: hooks, Caller: caller, Versions: api.Versions, Decode: api.DecodeStored, NewUID: api.NewUID, Log: cfg.Log,
	}
	janitor = custom.NewJanitor(custom.Janitor{
		Catalog: catalog, Snapshot: kept.Snapshot, Writer: api.Definitions(), Forget: hub.Forget, Clock: cfg.Clock, Log: cfg.Log,
	})
	if err := daemon.Run(ctx, kept.Run, hub.Run, janitor.Run, newServer(cfg, api).run); err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	return nil
}

// complete fills in what may be left out.
func complete(cfg Config) (Config, error) {
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

// plugins are the admission plugins but those that are switched off.
func plugins(off []string) []string {
	return slices.DeleteFunc(admission.Plugins(), func(name string) bool { return slices.Contains(off, name) })
}

// matcher is what selectors see of an object.
func matcher(compat proto.Compat, catalog *custom.Catalog) func(resource string, obj kinds.Object) (labels.Set, fields.Set) {
	return func(resource string, obj kinds.Object) (labels.Set, fields.Set) {
		kind, ok := kinds.ByResource(resource)
		if !ok {
			return labels.Set(obj.GetLabels()), catalog.Fields(resource, obj)
		}
		return labels.Set(obj.GetLabels()), registry.For(kind, compat).Fields(obj)
	}
}
