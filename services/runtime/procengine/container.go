package procengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// container is one container. The engine's lock guards its fields; the first five never change.
type container struct {
	id   string
	dir  string
	spec shim.Spec
	// refusal is the error if spec could not be built.
	refusal error
	// request is the container's CRI request.
	request *proto.CreateContainerRequest

	// conn is nil until the engine has connected to the shim.
	conn *shim.Conn
	// signals are queued until conn is set.
	signals []string
	// started, exited and removed change from false to true only.
	started, exited, removed bool
}

// supervise starts a container's shim if it has none, and reports its statuses until the container
// exits or ctx ends.
func (e *Engine) supervise(ctx context.Context, c *container, report engine.Report) {
	child, err := e.connectShim(ctx, c, report)
	if err != nil && c.refusal == nil && ctx.Err() != nil {
		return // the next runtime process finds out whether it runs
	}
	if err != nil {
		e.reportExit(ctx, c, e.startFailure(ctx, c, err), report)
		return
	}
	var last shim.Status
	c.conn.Run(ctx, func(status shim.Status) { last = status })
	if ctx.Err() != nil && !last.Exited {
		return // the container runs on without this process
	}
	if child != nil {
		_ = child.Wait() // the directory records how the shim ended
	}
	if !last.Exited {
		last = e.readExit(ctx, c)
	}
	e.reportExit(ctx, c, last, report)
}

// connectShim starts a container's shim and sends it the queued signals. The returned child is nil
// if an earlier runtime process started the shim.
func (e *Engine) connectShim(ctx context.Context, c *container, report engine.Report) (*exec.Cmd, error) {
	switch {
	case c.refusal != nil:
		return nil, c.refusal
	case c.conn != nil:
		return nil, nil
	}
	fresh, err := e.startShim(ctx, c)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	c.conn = fresh.conn // set before the report, because a caller may use it at once
	for _, signal := range c.signals {
		c.conn.RequestSignal(signal)
	}
	c.signals = nil
	e.mu.Unlock()
	report(c.id, e.toEngineStatus(fresh.status))
	return fresh.child, nil
}

// startFailure returns the final status of a container if the engine could not connect to its shim:
// the container may have run and exited before, or its start failed.
func (e *Engine) startFailure(ctx context.Context, c *container, why error) shim.Status {
	if c.refusal == nil {
		if status := e.readExit(ctx, c); !status.Lost {
			return status
		}
	}
	return shim.Status{Exited: true, Code: engine.ExitStartError, Failed: why.Error(), FinishedAt: clock.Clock{}.Now()}
}

// startShim starts a container's shim and connects to it.
func (e *Engine) startShim(ctx context.Context, c *container) (startedShim, error) {
	if err := e.cfg.Cgroups.Create(c.spec.Limits.Cgroup, c.request.Resources); err != nil {
		return startedShim{}, err
	}
	if err := shim.Prepare(c.dir, c.spec); err != nil {
		return startedShim{}, err
	}
	child, err := e.spawnShim(c)
	if err != nil {
		return startedShim{}, fmt.Errorf("start the shim: %w", err)
	}
	conn, status, err := shim.Dial(ctx, c.dir)
	switch {
	case err != nil && ctx.Err() != nil:
		return startedShim{}, err // the shim runs on without this process
	case err != nil:
		_ = child.Process.Kill() // most have exited already; an unreachable one is killed with its program
		return startedShim{}, errors.Join(fmt.Errorf("talk to the shim: %w", err), child.Wait())
	}
	return startedShim{child, conn, status}, nil
}

// startedShim is a shim that this runtime process has started.
type startedShim struct {
	child  *exec.Cmd
	conn   *shim.Conn
	status shim.Status
}

// spawnShim starts a shim in its own session and waits until it listens or exits.
func (e *Engine) spawnShim(c *container) (*exec.Cmd, error) {
	listening, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer listening.Close()
	//nolint:noctx // it outlives every context
	child := exec.Command(e.cfg.Shim[0], append(e.cfg.Shim[1:len(e.cfg.Shim):len(e.cfg.Shim)], c.dir)...)
	child.Env = []string{"GOMAXPROCS=2"}
	child.ExtraFiles = []*os.File{theirs}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if e.cfg.Isolation.UserNamespace {
		child.SysProcAttr = inUserNamespace(*child.SysProcAttr)
	}
	err = child.Start()
	if err := errors.Join(err, theirs.Close()); err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, listening)
	return child, nil
}

// readExit returns the final status of a container after its shim exited without reporting it.
func (e *Engine) readExit(ctx context.Context, c *container) shim.Status {
	status, err := shim.ReadExit(c.dir, c.id)
	for i := 0; i < dialAttempts && errors.Is(err, shim.ErrClaimed); i++ { // the shim is exiting
		if err = (clock.Clock{}).Sleep(ctx, dialPause); err == nil {
			status, err = shim.ReadExit(c.dir, c.id)
		}
	}
	if err != nil {
		e.cfg.Log.ErrorContext(ctx, "a container's exit status is unknown", "container", c.id, "err", err)
		return shim.Status{Exited: true, Lost: true, Code: engine.ExitUnknown, FinishedAt: clock.Clock{}.Now()}
	}
	return status
}

// reportExit reports an exit, or cleans up if the container was removed meanwhile.
func (e *Engine) reportExit(ctx context.Context, c *container, status shim.Status, report engine.Report) {
	e.mu.Lock()
	c.exited = true
	removed := c.removed
	e.mu.Unlock()
	if removed {
		e.removeFiles(ctx, c)
		return
	}
	report(c.id, e.toEngineStatus(status))
}

// toEngineStatus converts a shim's status to the engine's type and to cluster time.
func (e *Engine) toEngineStatus(s shim.Status) engine.Status {
	status := engine.Status{StartedAt: e.cfg.Clock.TimeAt(s.StartedAt)}
	switch {
	case s.Running:
		status.State, status.PID = proto.ContainerState_CONTAINER_STATE_RUNNING, s.PID
		return status
	case !s.Exited:
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_EXITED
	status.FinishedAt, status.ExitCode = e.cfg.Clock.TimeAt(s.FinishedAt), s.Code
	switch {
	case s.Failed != "":
		status.Reason = engine.ReasonStartError
		status.Message = "failed to start container: " + s.Failed
	case s.Lost:
		status.Reason = engine.ReasonUnknown
	case s.OOMKilled && s.Code != 0:
		status.Reason = engine.ReasonOOMKilled
	default:
		status.Reason = engine.ReasonFor(s.Code)
	}
	return status
}
