// Package faultstate stores and publishes a cluster's fault state: its clock, faults and cuts. The
// state is a file in the bus process's directory, and each change is published as a whole. Package
// internal/mgmt defines its meaning.
package faultstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	carrier "github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
)

// Config configures a Keeper.
type Config struct {
	// Bus is the connection to the hub as [mgmt.Keeper]. The caller closes it.
	Bus *carrier.Conn
	// File stores the state; empty keeps it in memory.
	File string
	// Epoch is unique to this run of the keeper.
	Epoch string
	// Members are all members that a cut can name.
	Members []string
	// Schedule is the clock schedule to use if the file has none.
	Schedule clock.Schedule
	// Clock is the cluster's clock, which Apply updates from the state. Only this clock decides
	// when entries end, so that steps of the machine's clock have no effect.
	Clock clock.Clock
	// Apply is called with each new state, one at a time, before the state is published.
	Apply func(mgmt.FaultState)
	Log   *slog.Logger
}

// Keeper stores and publishes the fault state.
type Keeper struct {
	cfg     Config
	changed chan struct{}

	mu    sync.Mutex
	state mgmt.FaultState
}

// Open loads the saved state. A damaged file is renamed, and the state is then empty: no faults and
// no cuts.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{cfg: cfg, changed: make(chan struct{}, 1)}
	state, err := load(cfg.File)
	if damaged, ok := errors.AsType[*damageError](err); ok {
		cfg.Log.WarnContext(ctx, "the fault state was damaged: all faults and cuts are cleared", "file", damaged.aside, "err", err)
	} else if err != nil {
		return nil, fmt.Errorf("open the fault state: %w", err)
	}
	state.Epoch, state.Members = cfg.Epoch, cfg.Members
	if len(state.Clock) == 0 {
		state.Clock = cfg.Schedule
	}
	wall := clock.Clock{}.Now()
	k.state = state.WithoutExpired(mgmt.Instant{Wall: wall, Cluster: state.Clock.TimeAt(wall)})
	cfg.Apply(k.state)
	return k, nil
}

// Run serves the state until ctx ends. It calls ready once it is listening.
func (k *Keeper) Run(ctx context.Context, ready func()) error {
	get, err := k.cfg.Bus.Listen(ctx, proto.MgmtFaultStateGet)
	if err != nil {
		return fmt.Errorf("keep the fault state: %w", err)
	}
	set, err := k.cfg.Bus.Listen(ctx, proto.MgmtFaultStateSet)
	if err != nil {
		return fmt.Errorf("keep the fault state: %w", err)
	}
	ready()
	return daemon.Run(ctx, k.expire, k.repeat,
		func(ctx context.Context) error { return get.Serve(ctx, k.answer) },
		func(ctx context.Context) error { return set.Serve(ctx, k.answer) },
	)
}

// now returns the current time of both clocks.
func (k *Keeper) now() mgmt.Instant {
	return mgmt.Instant{Wall: clock.Clock{}.Now(), Cluster: k.cfg.Clock.Now()}
}

// answer handles a get or a set.
func (k *Keeper) answer(ctx context.Context, call *carrier.Call) {
	var answer mgmt.Response
	state, err := k.State(), error(nil)
	if call.Subject == proto.MgmtFaultStateSet {
		state, err = k.change(call.Data)
	}
	switch {
	case err != nil:
		answer.Error, answer.NotFound = err.Error(), errors.Is(err, mgmt.ErrNotFound)
	default:
		answer.Board = &state
	}
	data, err := json.Marshal(answer)
	if err == nil {
		err = call.Send(ctx, data, false)
	}
	if err != nil {
		k.cfg.Log.DebugContext(ctx, "an answer about the fault state was not sent", "err", err)
	}
}

// State returns the current state.
func (k *Keeper) State() mgmt.FaultState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// change applies a request. When it returns, the new state is on disk, in force in this process,
// and published.
func (k *Keeper) change(request []byte) (mgmt.FaultState, error) {
	var change mgmt.Change
	if err := json.Unmarshal(request, &change); err != nil {
		return mgmt.FaultState{}, fmt.Errorf("unreadable change: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	next, err := k.state.Apply(change, k.now())
	if err != nil {
		return mgmt.FaultState{}, err
	}
	return next, k.put(next)
}

// put replaces the state. The caller holds the lock.
func (k *Keeper) put(next mgmt.FaultState) error {
	if err := save(k.cfg.File, next); err != nil {
		return fmt.Errorf("save the fault state: %w", err)
	}
	k.state = next
	k.cfg.Apply(next)
	select {
	case k.changed <- struct{}{}:
	default:
	}
	return k.publish()
}

func (k *Keeper) publish() error {
	data, err := json.Marshal(k.state)
	if err == nil {
		err = k.cfg.Bus.Publish(proto.MgmtFaultState, data)
	}
	if errors.Is(err, carrier.ErrDisconnected) {
		return nil // it is published periodically
	}
	return err
}

// expire removes entries when they end.
func (k *Keeper) expire(ctx context.Context) error {
	for {
		if err := k.await(ctx, k.State().NextExpiry()); err != nil {
			return err
		}
		if err := k.dropExpired(); err != nil {
			k.cfg.Log.ErrorContext(ctx, "expired entries stay in the fault state", "err", err)
		}
	}
}

// await returns when the state has changed, or an entry has ended.
func (k *Keeper) await(ctx context.Context, ends mgmt.Instant) error {
	var wall, cluster <-chan time.Time
	if !ends.Wall.IsZero() {
		timer := clock.Clock{}.Timer(max(clock.Clock{}.Until(ends.Wall), 0))
		defer timer.Stop()
		wall = timer.C
	}
	if !ends.Cluster.IsZero() {
		timer := k.cfg.Clock.Timer(max(ends.Cluster.Sub(k.cfg.Clock.Steady()), 0))
		defer timer.Stop()
		cluster = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-k.changed:
	case <-wall:
	case <-cluster:
	}
	return nil
}

func (k *Keeper) dropExpired() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if next := k.state.WithoutExpired(k.now()); next.Revision != k.state.Revision {
		return k.put(next)
	}
	return nil
}

// repeat publishes the state periodically, for subscribers that missed an update.
func (k *Keeper) repeat(ctx context.Context) error {
	for {
		k.mu.Lock()
		err := k.publish()
		k.mu.Unlock()
		if err != nil {
			return err
		}
		if err := (clock.Clock{}).Sleep(ctx, mgmt.PublishInterval); err != nil {
			return err
		}
	}
}
