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

// StationConfig is what a Station works with.
type StationConfig struct {
	// Process is whose station it is.
	Process string
	// Bus is the connection to the hub, as [proto.Mgmt] of the process. It stays the
	// caller's.
	Bus *bus.Conn
	// Apply is told of every new board, one after the other; it must not block for long.
	Apply func(Board)
	// Inspect answers who asks what the process knows; nil answers nobody.
	Inspect func(ctx context.Context, question []byte) ([]byte, error)
	Log     *slog.Logger
}

// Station is a process's place on the management plane. A nil Station is one that nobody
// speaks to, as in a cluster inside a test.
type Station struct {
	cfg StationConfig

	mu    sync.Mutex
	board Board
	first chan struct{}
	// known closes first.
	known func()
}

// NewStation is a station; Run it.
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

// Run follows the board and answers questions until ctx ends. Without a keeper on the bus
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

// Wait returns when the process has the board and hears who asks what it knows, or knows that
// it will not, or ctx has ended: what a process does first should know what is broken.
func (s *Station) Wait(ctx context.Context) {
	if s == nil {
		return
	}
	select {
	case <-s.first:
	case <-ctx.Done():
	}
}

// Board is the board as it is known here.
func (s *Station) Board() Board {
	if s == nil {
		return Board{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board
}

// Client asks and changes the board as this process, if it may.
func (s *Station) Client() *Client { return NewClient(s.cfg.Bus) }

// follow keeps the board.
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
				s.cfg.Log.DebugContext(ctx, "the board is not to be had", "err", err) // it is published now and then
			}
			continue
		case err != nil:
			return s.without(ctx, err)
		}
		var board Board
		if err := json.Unmarshal(data, &board); err != nil {
			s.cfg.Log.WarnContext(ctx, "unreadable board", "err", err)
			continue
		}
		s.apply(board)
	}
}

// retry is between two attempts to get the first board, on the wall.
const retry = 100 * time.Millisecond

// without goes on without a management plane, on a bus that does not let us have one.
func (s *Station) without(ctx context.Context, err error) error {
	if errors.Is(err, bus.ErrForbidden) {
		s.known()
		s.cfg.Log.WarnContext(ctx, "no management: faults, cuts and clocks cannot be set here", "process", s.cfg.Process, "err", err)
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

// apply takes a board over, unless it is old. Follow alone calls it.
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

// answer listens before anyone follows the board, so that [Station.Wait] can promise it.
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

// Inspected listens for those who ask a process what it knows; what it returns answers them
// until ctx ends.
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
