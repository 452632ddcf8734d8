// Package runtime implements a node's container runtime. It answers Container Runtime Interface
// calls from the node bus and keeps sandboxes and containers on disk, so that they outlive the
// process. Engines run the processes.
//
//	runtimeapi ─ service ─┬─ sandboxes.go containers.go   what exists
//	                      ├─ stop_plan.go stop_call.go    PURE: the next step of a stop
//	                      ├─ stop.go                      runs the steps
//	                      ├─ engines.go                   which engine runs a container
//	                      ├─ engine (simengine procengine)  processes
//	                      └─ store                        what must be durable
//
// # What is on disk when
//
// Durable before the reply: that a sandbox or a container was made, that a sandbox was stopped, and
// that either was removed. Durable before the effect: the request to start, the stop signal, and
// the first SIGKILL. So a restart loses nothing acknowledged, and no stop signal is sent twice
// (CRI-07). An exit is written with the next commit, because the engine can report the exit again.
//
// A full disk ends no process. A call whose record cannot be written has no effect, returns Unknown
// with the disk's error, and may be retried.
//
// # Order
//
// Calls run concurrently. Every later call sees what an earlier call has returned.
//
// # Blocking
//
// StartContainer waits until the container runs. StopContainer waits until the container exits.
// Calls that remove things wait for what they must kill. All other calls wait only for the disk.
//
// # Two endings
//
// When its context ends, the runtime exits and scripted containers run on, because their behaviour
// follows from their records and the time. Only a stop kills (CRI-15).
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/images"
	"github.com/podfall/podfall/services/runtime/simengine"
	"github.com/podfall/podfall/services/runtime/store"
)

// Config configures a runtime.
type Config struct {
	// Bus is the node bus, connected as [proto.Runtime].
	Bus *bus.Conn
	// DataDir holds the runtime's records. Run creates it if it is missing.
	DataDir string
	// Clock is the cluster's clock.
	Clock clock.Clock
	// Boot identifies this incarnation of the runtime in the history.
	Boot proto.Boot
	// PodCIDR is the address range of sandboxes, for example 10.0.3.0/24. If empty, Run derives a
	// part of 10.0.0.0/8 from DataDir.
	PodCIDR string
	// Containers configures engines and images.
	Containers Containers
	// Observers get every start, signal and exit, and may inspect the runtime.
	inspect.Observers[inspect.Runtime]
	// Faults injects faults; nil injects none.
	Faults *fault.Table
	// Log receives every start, signal and exit; nil discards them.
	Log *slog.Logger
	// Ready is called once, after all recorded containers are restored; may be nil.
	Ready func()
	// NoSync skips every fsync; for tests.
	NoSync bool
}

// Containers configures the engines and the images.
type Containers struct {
	// Engines run containers, keyed by the handler that a sandbox asks for. The scripted engine is
	// always added.
	Engines map[string]engine.Engine
	// Handler is used for sandboxes that ask for none; empty means scripted.
	Handler string
	// Images maps an image to the program or script that replaces it.
	Images *images.Catalog
	// Programs describes to inspectors how real programs run on this node.
	Programs string
}

// File names the runtime's database file in its DataDir.
const File = "runtime.db"

// Run answers calls until ctx ends. It fails if the records cannot be read (*store.DamageError,
// *store.FormatError) or belong to another process ([store.ErrLocked]). It also fails if a write
// leaves the file in an unknown state (*store.CommitError).
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Containers.Handler == "" {
		cfg.Containers.Handler = HandlerScripted
	}
	all := map[string]engine.Engine{HandlerScripted: simengine.New(cfg.Clock)}
	maps.Copy(all, cfg.Containers.Engines)
	cfg.Containers.Engines = all
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	records, contents, err := store.Open(store.Config{Path: filepath.Join(cfg.DataDir, File), NoSync: cfg.NoSync})
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	s, err := newService(ctx, cfg, records, contents)
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	cfg.ProvideInspect(s.snapshot)
	return daemon.Run(ctx,
		records.Run,
		func(ctx context.Context) error { return s.engines.Run(ctx, s.reporter(ctx)) },
		func(ctx context.Context) error {
			s.finishStops(ctx)
			return runtimeapi.Serve(ctx, runtimeapi.ServerConfig{
				Bus: cfg.Bus, Runtime: s, Clock: cfg.Clock, Faults: cfg.Faults, Attributes: s.requestTarget, Log: cfg.Log, Ready: cfg.Ready,
			})
		},
	)
}
