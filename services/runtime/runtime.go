// Package runtime is a node's container runtime: it answers the calls of the Container
// Runtime Interface that arrive on the node bus, keeps sandboxes and containers on
// record so that they outlive it, and leaves the running of processes to an engine.
//
//	runtimeapi ─ service ─┬─ sandboxes.go containers.go   what exists
//	                      ├─ stop_plan.go stop_call.go    PURE: the next step of a stop
//	                      ├─ stop.go                      carries the steps out
//	                      ├─ engines.go                   which engine a container is for
//	                      ├─ engine (simengine procengine)  processes
//	                      └─ store                        what must survive
//
// # What is on disk when
//
// Durable before the reply: that a sandbox or a container was made, stopped (sandbox)
// or removed. Durable before the effect: that a start was asked for, that the stop
// signal was sent, that SIGKILL was sent for the first time. So after a restart nothing
// that was acknowledged is missing, and no stop signal is sent twice (CRI-07). An exit
// is written with the next commit: the engine can tell it again.
//
// A disk that is full ends no process: the call whose record cannot be written is
// answered Unknown with the disk's words, has done nothing, and may be made again.
//
// # Order
//
// Calls run beside each other. What a call has answered, each later call sees.
//
// # Blocking
//
// StartContainer waits for the container to run, StopContainer for it to exit, and what
// removes for what it must kill; no other call waits for anything but the disk.
//
// # Two endings
//
// When its context ends, the runtime leaves: scripted containers run on, because what
// they do follows from their records and the time. Only a stop kills (CRI-15).
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

// Config is a runtime.
type Config struct {
	// Bus is the node bus, connected as [proto.Runtime].
	Bus *bus.Conn
	// DataDir holds the runtime's records; it is made when it does not exist.
	DataDir string
	// Clock is the cluster's.
	Clock clock.Clock
	// Boot is this incarnation; the history names it.
	Boot proto.Boot
	// PodCIDR is what sandboxes get their addresses from, such as 10.0.3.0/24; empty
	// means a part of 10.0.0.0/8 that follows from DataDir.
	PodCIDR string
	// Containers is what runs them.
	Containers Containers
	// Observers are told of every start, signal and exit, and may ask what there is.
	inspect.Observers[inspect.Runtime]
	// Faults are what goes wrong on purpose; nil is nothing.
	Faults *fault.Table
	// Log is told of every start, signal and exit; nil discards.
	Log *slog.Logger
	// Ready is called once, when everything on record has been taken up; may be nil.
	Ready func()
	// NoSync leaves out every fsync; for tests.
	NoSync bool
}

// Containers is what runs containers.
type Containers struct {
	// Engines run them, by the handler that a sandbox asks for. Scripted ones are always
	// there.
	Engines map[string]engine.Engine
	// Handler is that of the sandboxes that ask for none; empty means scripted.
	Handler string
	// Images is what stands for each image.
	Images *images.Book
	// Programs is told to who inspects the runtime: how real programs run here.
	Programs string
}

// File is the name of the runtime's file in its DataDir.
const File = "runtime.db"

// Run answers calls until ctx ends. It returns an error when the records cannot be
// read (a *store.DamageError, a *store.FormatError), when they belong to another
// process ([store.ErrLocked]) and when a write has failed such that nobody knows whether
// it is on disk (a *store.CommitError).
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
	cfg.Observers.Ready(s.tell)
	return daemon.Run(ctx,
		records.Run,
		func(ctx context.Context) error { return s.engines.Run(ctx, s.reporter(ctx)) },
		func(ctx context.Context) error {
			s.settle(ctx)
			return runtimeapi.Serve(ctx, runtimeapi.Serving{
				Bus: cfg.Bus, Runtime: s, Clock: cfg.Clock, Faults: cfg.Faults, About: s.asked, Log: cfg.Log, Ready: cfg.Ready,
			})
		},
	)
}
