// Package procengine runs containers as processes of the machine, without root and without a
// container engine. Each process has a shim as its parent (package shim), which outlives the
// runtime. The engine starts shims, talks to them, and finds them again after a restart.
//
//	allow.go      which programs may run
//	isolation.go  how programs are isolated on this machine
//	cgroups       resource limits, if the machine has cgroups of version 2
//	launch        what a process does before it executes the program
//	spec.go       PURE: converts a container's request to a shim's spec
//	engine.go     the engine's methods
//	container.go  one container and its shim
//
// # Restart
//
// Load finds a container's shim by the lock that the shim holds, and reconnects to it. If Load gets
// the lock, there is no shim. Then the container has exited as its shim recorded, or its exit is
// unknown (CRI-11) and its remaining processes are killed.
//
// # Time
//
// Programs and signals are real, whatever the speed of the cluster's clock. Only reported times are
// cluster time.
package procengine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine/cgroups"
	"github.com/podfall/podfall/services/runtime/procengine/logfile"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// Config configures an engine.
type Config struct {
	// Clock is the cluster's clock.
	Clock clock.Clock
	// Dir holds a directory per container. New creates it if it is missing.
	Dir string
	// Shim is the command line that runs shim.Run on the directory appended to it. It must close
	// descriptor 3 when shim.Run calls listening.
	Shim []string
	// Launch is the command line that runs launch.Run.
	Launch []string
	// Allow holds the allowed programs.
	Allow Allowlist
	// Isolation is the result of [DetectIsolation].
	Isolation Isolation
	// Cgroups holds the containers' cgroups; nil if there are none.
	Cgroups *cgroups.Tree
	// Init applies the rule of process 1 if there are no PID namespaces: signals without a handler
	// are ignored.
	Init bool
	// Journal is the file to which signals and commands are recorded, before and after; empty
	// records none.
	Journal string
	// Log receives errors; nil discards them.
	Log *slog.Logger
}

// Engine runs containers as processes of the machine.
type Engine struct {
	cfg Config
	// createdAt is the wall time of New.
	createdAt time.Time

	mu         sync.Mutex
	containers map[string]*container
	// due holds the containers that Run must start to supervise; wake signals that there are some.
	due  []*container
	wake chan struct{}
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine without containers.
func New(cfg Config) (*Engine, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("process engine: %w", err)
	}
	return &Engine{cfg: cfg, createdAt: clock.Clock{}.Now(), containers: map[string]*container{}, wake: make(chan struct{}, 1)}, nil
}

// Run implements [engine.Engine]. When ctx ends, the programs keep running.
func (e *Engine) Run(ctx context.Context, report engine.Report) error {
	group := daemon.NewGroup(ctx)
	for {
		if err := e.rotateJournal(); err != nil {
			e.cfg.Log.WarnContext(ctx, "the journal of signals cannot be put aside and goes on growing", "error", err)
		}
		for _, c := range e.takeDue() {
			group.Go(func(ctx context.Context) error {
				e.supervise(ctx, c, report)
				return nil
			})
		}
		select {
		case <-e.wake:
		case <-ctx.Done():
			group.Stop()
			return group.Wait()
		}
	}
}

func (e *Engine) takeDue() []*container {
	e.mu.Lock()
	defer e.mu.Unlock()
	due := e.due
	e.due = nil
	return due
}

// queueSupervise hands a container to Run. The caller holds the lock.
func (e *Engine) queueSupervise(c *container) {
	e.due = append(e.due, c)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Load implements [engine.Engine]. A program that is not allowed becomes a failed start.
func (e *Engine) Load(ctx context.Context, loaded engine.Container) (engine.Status, error) {
	if filepath.Base(loaded.ID) != loaded.ID || !filepath.IsLocal(loaded.ID) || loaded.ID == "." {
		return engine.Status{}, fmt.Errorf("container id %q: want the name of a directory, without a slash", loaded.ID) // T10
	}
	c := &container{id: loaded.ID, dir: filepath.Join(e.cfg.Dir, loaded.ID), request: loaded.Request}
	if loaded.Events.Start.IsZero() {
		c.spec, c.refusal = e.buildSpec(loaded)
		e.addContainer(c)
		return engine.Status{}, nil
	}
	status, err := e.findShim(ctx, c)
	if err != nil {
		return engine.Status{}, fmt.Errorf("container %s: %w", loaded.ID, err)
	}
	e.addContainer(c)
	if c.conn != nil {
		e.resume(c, loaded)
	}
	return status, nil
}

// resume continues with a container that still has a shim. Recorded signals may not have been sent
// before the runtime was killed, so resume asks for them again. A shim sends the stop signal only
// once.
func (e *Engine) resume(c *container, loaded engine.Container) {
	if !loaded.Events.Stop.IsZero() {
		c.conn.RequestSignal(engine.StopSignal(loaded.Request))
	}
	if !loaded.Events.Kill.IsZero() {
		c.conn.RequestSignal(engine.SIGKILL)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queueSupervise(c)
}

func (e *Engine) addContainer(c *container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[c.id] = c
}

// findShim looks for the shim of a container that an earlier runtime process started.
func (e *Engine) findShim(ctx context.Context, c *container) (engine.Status, error) {
	if err := os.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return engine.Status{}, err
	}
	c.started = true
	for {
		ended, err := shim.ReadExit(c.dir, c.id)
		if err == nil {
			c.exited = true
			return e.toEngineStatus(ended), nil
		}
		if !errors.Is(err, shim.ErrClaimed) {
			return engine.Status{}, err
		}
		conn, status, err := shim.Dial(ctx, c.dir)
		if err == nil {
			c.conn = conn
			return e.toEngineStatus(status), nil
		}
		if (clock.Clock{}).Since(e.createdAt) > dialAttempts*dialPause {
			return engine.Status{}, errShimSilent
		}
		if err := (clock.Clock{}).Sleep(ctx, dialPause); err != nil {
			return engine.Status{}, err
		}
	}
}

// A shim that does not answer has just started, or is about to exit. The engine dials it again
// after a pause, for a minute in all, because the machine may be stalled. At the start of a
// runtime, the minute covers all its shims.
const (
	dialAttempts = 12_000
	dialPause    = 5 * time.Millisecond
)

var errShimSilent = errors.New("its shim runs and does not answer")

// Start implements [engine.Engine].
func (e *Engine) Start(_ context.Context, id string, _ time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return notLoaded(id)
	}
	if !c.started {
		c.started = true
		e.queueSupervise(c)
	}
	return nil
}

// Signal implements [engine.Engine]. If the engine is not connected to the shim yet, the signal is
// queued.
func (e *Engine) Signal(ctx context.Context, id, signal string, _ time.Time) error {
	e.mu.Lock()
	c, ok := e.containers[id]
	if !ok || c.exited {
		e.mu.Unlock()
		return nil
	}
	conn := c.conn
	if conn == nil {
		c.signals = append(c.signals, signal)
	}
	e.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.Signal(ctx, signal)
}

var errNotRunning = errors.New("the container does not run")

// Exec implements [engine.Engine]. The command must be allowed, as the container's program must be.
func (e *Engine) Exec(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	e.mu.Lock()
	c, ok := e.containers[req.ContainerId]
	if !ok {
		e.mu.Unlock()
		return nil, notLoaded(req.ContainerId)
	}
	conn := c.conn
	e.mu.Unlock()
	if conn == nil {
		return nil, errNotRunning
	}
	if len(req.Command) == 0 {
		return nil, errNoProgram
	}
	program, err := e.cfg.Allow.ResolveProgram(req.Command[0])
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(req.TimeoutSeconds) * time.Second
	result, err := conn.Exec(ctx, shim.Command{Program: program, Args: req.Command, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	if result.TimedOut {
		return nil, fmt.Errorf("command %q timed out: %w", req.Command[0], context.DeadlineExceeded)
	}
	return &proto.ExecSyncResponse{Stdout: result.Stdout, Stderr: result.Stderr, ExitCode: result.Code}, nil
}

// maxLog bounds the bytes of a log that are read, so that an answer fits into one message of the
// bus.
const maxLog = 4 << 20

// Logs implements [engine.Engine].
func (e *Engine) Logs(_ context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	e.mu.Lock()
	c, ok := e.containers[req.ContainerId]
	e.mu.Unlock()
	if !ok {
		return nil, notLoaded(req.ContainerId)
	}
	logs, err := shim.OpenLogs(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	query := logfile.Query{Tail: req.TailLines, Timestamps: req.Timestamps, MaxBytes: maxLog}
	if req.SinceUnixNano > 0 {
		query.Since = time.Unix(0, req.SinceUnixNano)
	}
	return logfile.Read(logs, query)
}

// Remove implements [engine.Engine]. A running container is killed, and its directory is removed
// after its exit.
func (e *Engine) Remove(ctx context.Context, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return
	}
	delete(e.containers, id)
	c.removed = true
	switch {
	case c.exited || !c.started:
		e.removeFiles(ctx, c)
	case c.conn == nil:
		c.signals = append(c.signals, engine.SIGKILL)
	default:
		c.conn.RequestSignal(engine.SIGKILL)
	}
}

// removeFiles removes a container's directory and cgroup.
func (e *Engine) removeFiles(ctx context.Context, c *container) {
	e.cfg.Cgroups.Remove(e.cfg.Cgroups.Path(c.request.CgroupParent, c.id))
	if err := os.RemoveAll(c.dir); err != nil {
		e.cfg.Log.ErrorContext(ctx, "a container's directory could not be removed", "container", c.id, "err", err)
	}
}

func notLoaded(id string) error { return fmt.Errorf("container %q is not loaded", id) }
