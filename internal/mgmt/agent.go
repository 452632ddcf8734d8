package mgmt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
)

// AgentConfig configures an Agent.
type AgentConfig struct {
	// Process is the name of the agent's process.
	Process string
	// Bus is the connection to the hub, as [proto.Mgmt] of the process. The caller keeps ownership
	// of it.
	Bus *bus.Conn
	// Apply is called with every new fault state, one after the other. It must not block for long.
	Apply func(FaultState)
	// Inspect answers inspections; nil answers none.
	Inspect func(ctx context.Context, question []byte) ([]byte, error)
	Log     *slog.Logger
}

// Agent connects a process to the management bus. A nil Agent has no connection, as in a cluster
// inside a test.
type Agent struct {
	cfg AgentConfig

	mu    sync.Mutex
	state FaultState
	ready chan struct{}
	// markReady closes ready.
	markReady func()
}

// NewAgent returns an agent; Run it.
func NewAgent(cfg AgentConfig) *Agent {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Apply == nil {
		cfg.Apply = func(FaultState) {}
	}
	first := make(chan struct{})
	return &Agent{cfg: cfg, ready: first, markReady: sync.OnceFunc(func() { close(first) })}
}

// Run follows the fault state and answers inspections until ctx ends. If the bus has no keeper yet,
// it waits for one.
func (s *Agent) Run(ctx context.Context) error {
	if s == nil {
		<-ctx.Done()
		return nil
	}
	parts := []func(context.Context) error{s.follow}
	if s.cfg.Inspect != nil {
		parts = append(parts, s.serveInspect(ctx))
	}
	return daemon.Run(ctx, parts...)
}

// WaitReady returns once the process has the fault state and answers inspections, once it knows
// that it never will, or when ctx ends. Call it first, so that faults are in force from the
// process's first action on.
func (s *Agent) WaitReady(ctx context.Context) {
	if s == nil {
		return
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
	}
}

// State returns the fault state as known to this process.
func (s *Agent) State() FaultState {
	if s == nil {
		return FaultState{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Client returns a client that acts as this process.
func (s *Agent) Client() *Client { return NewClient(s.cfg.Bus) }

// follow keeps the fault state up to date.
func (s *Agent) follow(ctx context.Context) error {
	const queue = 64
	sub, err := s.cfg.Bus.Subscribe(proto.MgmtFaultState, queue)
	if err != nil {
		return s.runUnmanaged(ctx, err)
	}
	defer sub.Close()
	for {
		if err := s.fetch(ctx); err == nil {
			break
		}
		if err := (clock.Clock{}).Sleep(ctx, retryInterval); err != nil {
			return err
		}
	}
	for {
		data, err := sub.Next(ctx)
		switch {
		case errors.Is(err, bus.ErrMissedMessages):
			if err := s.fetch(ctx); err != nil {
				s.cfg.Log.DebugContext(ctx, "cannot read the fault state", "err", err) // the state is published regularly
			}
			continue
		case err != nil:
			return s.runUnmanaged(ctx, err)
		}
		var state FaultState
		if err := json.Unmarshal(data, &state); err != nil {
			s.cfg.Log.WarnContext(ctx, "unreadable fault state", "err", err)
			continue
		}
		s.apply(state)
	}
}

// retryInterval is the time between two attempts to read the first fault state, in wall time.
const retryInterval = 100 * time.Millisecond

// runUnmanaged continues without management if the bus forbids it to this process.
func (s *Agent) runUnmanaged(ctx context.Context, err error) error {
	if errors.Is(err, bus.ErrForbidden) {
		s.markReady()
		s.cfg.Log.WarnContext(ctx, "no management connection: faults, cuts and clock changes do not reach this process", "process", s.cfg.Process, "err", err)
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *Agent) fetch(ctx context.Context) error {
	state, err := s.Client().Get(ctx)
	if err == nil {
		s.apply(state)
	}
	return err
}

// apply adopts a fault state unless it is old. Only follow calls it.
func (s *Agent) apply(state FaultState) {
	s.mu.Lock()
	if old := s.state; old.Epoch != "" && !state.IsNewerThan(old) {
		s.mu.Unlock()
		return
	}
	s.state = state
	s.mu.Unlock()
	s.cfg.Apply(state)
	s.markReady()
}

// serveInspect subscribes before the agent follows the fault state, so that [Agent.WaitReady]
// covers inspections too.
func (s *Agent) serveInspect(ctx context.Context) (serve func(context.Context) error) {
	listening, err := ListenInspect(ctx, s.cfg)
	return func(ctx context.Context) error {
		if err == nil {
			err = listening(ctx)
		}
		if err != nil {
			return s.runUnmanaged(ctx, fmt.Errorf("answer inspections: %w", err))
		}
		return nil
	}
}

// ListenInspect subscribes to inspections of a process. The returned function answers them until
// ctx ends.
func ListenInspect(ctx context.Context, cfg AgentConfig) (serve func(context.Context) error, err error) {
	service, err := cfg.Bus.Listen(ctx, proto.MgmtInspect(cfg.Process))
	if err != nil {
		return nil, err
	}
	answer := func(ctx context.Context, call *bus.Call) {
		data, err := cfg.Inspect(ctx, call.Data)
		if err != nil {
			data, err = json.Marshal(InspectResponse{Error: err.Error()})
		} else {
			data, err = json.Marshal(InspectResponse{Answer: data})
		}
		if err == nil {
			err = call.Send(ctx, data, false)
		}
		if err != nil {
			cfg.Log.DebugContext(ctx, "an inspection went unanswered", "err", err)
		}
	}
	return func(ctx context.Context) error { return service.Serve(ctx, answer) }, nil
}
