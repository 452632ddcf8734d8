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
type StationConfig struct {
	// Process is the name of the agent's process.
	Process string
	// Bus is the connection to the hub, as [proto.Mgmt] of the process. The caller keeps ownership
	// of it.
	Bus *bus.Conn
	// Apply is called with every new fault state, one after the other. It must not block for long.
	Apply func(Board)
	// Inspect answers inspections; nil answers none.
	Inspect func(ctx context.Context, question []byte) ([]byte, error)
	Log     *slog.Logger
}

// Agent connects a process to the management bus. A nil Agent has no connection, as in a cluster
// inside a test.
type Station struct {
	cfg StationConfig

	mu    sync.Mutex
	board Board
	first chan struct{}
	// markReady closes ready.
	known func()
}

// NewAgent returns an agent; Run it.
func NewStation(cfg StationConfig) *Station {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Apply == nil {
		cfg.Apply = func(Board) {}
	}
	first := make(chan struct{})
	return &Station{cfg: cfg, first: first, known: sync.OnceFunc(func() { close(first) })}
}

// Run follows the fault state and answers inspections until ctx ends. If the bus has no keeper yet,
// it waits for one.
func (s *Station) Run(ctx context.Context) error {
	if s == nil {
		<-ctx.Done()
		return nil
	}
	parts := []func(context.Context) error{s.follow}
	if s.cfg.Inspect != nil {
		parts = append(parts, s.answer(ctx))
	}
	return daemon.Run(ctx, parts...)
}

// WaitReady returns once the process has the fault state and answers inspections, once it knows
// that it never will, or when ctx ends. Call it first, so that faults are in force from the
// process's first action on.
func (s *Station) Wait(ctx context.Context) {
	if s == nil {
		return
	}
	select {
	case <-s.first:
	case <-ctx.Done():
	}
}

// State returns the fault state as known to this process.
func (s *Station) Board() Board {
	if s == nil {
		return Board{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board
}

// Client returns a client that acts as this process.
func (s *Station) Client() *Client { return NewClient(s.cfg.Bus) }

// follow keeps the fault state up to date.
func (s *Station) follow(ctx context.Context) error {
	const queue = 64
	sub, err := s.cfg.Bus.Subscribe(proto.MgmtBoard, queue)
	if err != nil {
		return s.without(ctx, err)
	}
	defer sub.Close()
	for {
		if err := s.fetch(ctx); err == nil {
			break
		}
		if err := (clock.Clock{}).Sleep(ctx, retry); err != nil {
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
			return s.without(ctx, err)
		}
		var board Board
		if err := json.Unmarshal(data, &board); err != nil {
			s.cfg.Log.WarnContext(ctx, "unreadable fault state", "err", err)
			continue
		}
		s.apply(board)
	}
}

// retryInterval is the time between two attempts to read the first fault state, in wall time.
const retry = 100 * time.Millisecond

// runUnmanaged continues without management if the bus forbids it to this process.
func (s *Station) without(ctx context.Context, err error) error {
	if errors.Is(err, bus.ErrForbidden) {
		s.known()
		s.cfg.Log.WarnContext(ctx, "no management connection: faults, cuts and clock changes do not reach this process", "process", s.cfg.Process, "err", err)
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *Station) fetch(ctx context.Context) error {
	board, err := s.Client().Get(ctx)
	if err == nil {
		s.apply(board)
	}
	return err
}

// apply adopts a fault state unless it is old. Only follow calls it.
func (s *Station) apply(board Board) {
	s.mu.Lock()
	if old := s.board; old.Epoch != "" && !board.Newer(old) {
		s.mu.Unlock()
		return
	}
	s.board = board
	s.mu.Unlock()
	s.cfg.Apply(board)
	s.known()
}

// serveInspect subscribes before the agent follows the fault state, so that [Agent.WaitReady]
// covers inspections too.
func (s *Station) answer(ctx context.Context) (serve func(context.Context) error) {
	listening, err := Inspected(ctx, s.cfg)
	return func(ctx context.Context) error {
		if err == nil {
			err = listening(ctx)
		}
		if err != nil {
			return s.without(ctx, fmt.Errorf("answer inspections: %w", err))
		}
		return nil
	}
}

// ListenInspect subscribes to inspections of a process. The returned function answers them until
// ctx ends.
func Inspected(ctx context.Context, cfg StationConfig) (serve func(context.Context) error, err error) {
	service, err := cfg.Bus.Listen(ctx, proto.MgmtInspect(cfg.Process))
	if err != nil {
		return nil, err
	}
	answer := func(ctx context.Context, call *bus.Call) {
		data, err := cfg.Inspect(ctx, call.Data)
		if err != nil {
			data, err = json.Marshal(Inspection{Error: err.Error()})
		} else {
			data, err = json.Marshal(Inspection{Answer: data})
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
