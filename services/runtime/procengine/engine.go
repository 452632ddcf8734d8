// Package procengine runs containers as processes of the machine, without root and
// without a container engine. Each has a shim as its parent (package shim), which
// outlives the runtime; the engine starts shims, talks to them, and finds them again.
//
//	allow.go      which programs may run
//	isolation.go  what keeps them apart on this machine
//	cgroups       what bounds them, where there are cgroups of version 2
//	launch        what a program's process does before it becomes the program
//	spec.go       PURE: a container's request as what a shim is to run
//	engine.go     the engine's methods
//	container.go  one container: its shim, and what it tells
//
// # Restart
//
// Load finds a container's shim by the lock that it holds, and connects to it again. Who
// gets the lock instead knows that there is none: the container has ended, as its shim
// wrote down, or nobody knows how (CRI-11), and then what is left of it is killed.
//
// # Time
//
// Programs and signals are real, whatever the speed of the cluster's clock; only the
// times that are reported are the cluster's.
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

// Config is an engine.
type Config struct {
	// Clock is the cluster's.
	Clock clock.Clock
	// Dir holds a directory per container; it is made when it does not exist.
	Dir string
	// Shim is the command line that runs shim.Run on the directory that is added to it,
	// and calls its listening by closing descriptor 3.
	Shim []string
	// Launch is the command line that runs launch.Run.
	Launch []string
	// Allow is what may be run.
	Allow Allowance
	// Isolation is what [Isolate] has found.
	Isolation Isolation
	// Cgroups holds the containers' cgroups; nil where there are none.
	Cgroups *cgroups.Tree
	// Init applies the rule of process 1 where there are no PID namespaces: a signal without
	// a handler is ignored.
	Init bool
	// Journal is the file in which signals and commands are written down, before and after;
	// empty means that they are not.
	Journal string
	// Log is told what goes wrong; nil discards.
	Log *slog.Logger
}

// Engine runs programs.
type Engine struct {
	cfg Config
	// born is when this life began, on the wall.
	born time.Time

	mu         sync.Mutex
	containers map[string]*container
	// due are the containers that Run has still to attend to; wake says that there are.
	due  []*container
	wake chan struct{}
}

var _ engine.Engine = (*Engine)(nil)

// New is an engine without containers.
func New(cfg Config) (*Engine, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("process engine: %w", err)
	}
	return &Engine{cfg: cfg, born: clock.Clock{}.Now(), containers: map[string]*container{}, wake: make(chan struct{}, 1)}, nil
}

// Run implements [engine.Engine]. When ctx ends, the programs run on.
func (e *Engine) Run(ctx context.Context, report engine.Report) error {
	group := daemon.NewGroup(ctx)
	for {
		if err := e.turnJournal(); err != nil {
			e.cfg.Log.WarnContext(ctx, "the journal of signals cannot be put aside and goes on growing", "error", err)
		}
		for _, c := range e.takeDue() {
			group.Go(func(ctx context.Context) error {
				e.attend(ctx, c, report)
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

// attendLater hands a container to Run. It is called under the lock.
func (e *Engine) attendLater(c *container) {
	e.due = append(e.due, c)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Load implements [engine.Engine]. A program that may not run is a start that fails.
func (e *Engine) Load(ctx context.Context, loaded engine.Container) (engine.Status, error) {
	if filepath.Base(loaded.ID) != loaded.ID || !filepath.IsLocal(loaded.ID) || loaded.ID == "." {
		return engine.Status{}, fmt.Errorf("container id %q: want the name of a directory, without a slash", loaded.ID) // T10
	}
	c := &container{id: loaded.ID, dir: filepath.Join(e.cfg.Dir, loaded.ID), request: loaded.Request}
	if loaded.Events.Start.IsZero() {
		c.spec, c.refusal = e.spec(loaded)
		e.add(c)
		return engine.Status{}, nil
	}
	status, err := e.find(ctx, c)
	if err != nil {
		return engine.Status{}, fmt.Errorf("container %s: %w", loaded.ID, err)
	}
	e.add(c)
	if c.conn != nil {
		e.resume(c, loaded)
	}
	return status, nil
}

// resume goes on with a container whose shim lives. The signals on record may not have
// been sent before the runtime was killed; a shim that has sent them does not do so again.
func (e *Engine) resume(c *container, loaded engine.Container) {
	if !loaded.Events.Stop.IsZero() {
		c.conn.Ask(engine.StopSignal(loaded.Request))
	}
	if !loaded.Events.Kill.IsZero() {
		c.conn.Ask(engine.SIGKILL)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attendLater(c)
}

func (e *Engine) add(c *container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[c.id] = c
}

// find looks for the shim of a container that was started in another life of the
// runtime.
func (e *Engine) find(ctx context.Context, c *container) (engine.Status, error) {
	if err := os.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return engine.Status{}, err
	}
	c.started = true
	for {
		ended, err := shim.End(c.dir, c.id)
		if err == nil {
			c.exited = true
			return e.status(ended), nil
		}
		if !errors.Is(err, shim.ErrClaimed) {
			return engine.Status{}, err
		}
		conn, status, err := shim.Dial(ctx, c.dir)
		if err == nil {
			c.conn = conn
			return e.status(status), nil
		}
		if (clock.Clock{}).Since(e.born) > tries*pause {
			return engine.Status{}, errMute
		}
		if err := (clock.Clock{}).Sleep(ctx, pause); err != nil {
			return engine.Status{}, err
		}
	}
}

// A shim that cannot be talked to has just begun, or is about to end. It is asked again
// after a pause, for a minute in all, because the machine may be stalled; when a runtime
// starts, in all for all of its shims.
const (
	tries = 12_000
	pause = 5 * time.Millisecond
)

var errMute = errors.New("its shim lives and does not answer")

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
		e.attendLater(c)
	}
	return nil
}

// Signal implements [engine.Engine]. A signal to a container whose shim cannot be talked
// to yet is sent as soon as it can.
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

// Exec implements [engine.Engine]. The command is subject to what is allowed as the
// container's own program is.
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
	program, err := e.cfg.Allow.Program(req.Command[0])
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

// maxLog is how many bytes of a log are read, so that an answer fits into one message of
// the bus.
const maxLog = 4 << 20

// Logs implements [engine.Engine].
func (e *Engine) Logs(_ context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	e.mu.Lock()
	c, ok := e.containers[req.ContainerId]
	e.mu.Unlock()
	if !ok {
		return nil, notLoaded(req.ContainerId)
	}
	logs, err := shim.Logs(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	query := logfile.Query{Tail: req.TailLines, Timestamps: req.Timestamps, Most: maxLog}
	if req.SinceUnixNano > 0 {
		query.Since = time.Unix(0, req.SinceUnixNano)
	}
	return logfile.Read(logs, query)
}

// Remove implements [engine.Engine]. What still runs is killed, and its directory goes
// when it has ended.
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
		e.clear(ctx, c)
	case c.conn == nil:
		c.signals = append(c.signals, engine.SIGKILL)
	default:
		c.conn.Ask(engine.SIGKILL)
	}
}

// clear takes a container's directory and its cgroup away.
func (e *Engine) clear(ctx context.Context, c *container) {
	e.cfg.Cgroups.Remove(e.cfg.Cgroups.Path(c.request.CgroupParent, c.id))
	if err := os.RemoveAll(c.dir); err != nil {
		e.cfg.Log.ErrorContext(ctx, "a container's directory stays", "container", c.id, "err", err)
	}
}

func notLoaded(id string) error { return fmt.Errorf("container %q is not loaded", id) }
