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

// container is one container. Its fields are guarded by the engine's lock; the first
// five never change.
type container struct {
	id   string
	dir  string
	spec shim.Spec
	// refusal is why there is no spec.
	refusal error
	// request is what it was made from.
	request *proto.CreateContainerRequest

	// conn is nil until its shim can be talked to.
	conn *shim.Conn
	// signals wait for that.
	signals []string
	// started, exited and removed only become true.
	started, exited, removed bool
}

// attend starts a container's shim, unless it has one, and reports what it tells, until
// the container has ended or ctx has.
func (e *Engine) attend(ctx context.Context, c *container, report engine.Report) {
	child, err := e.connect(ctx, c, report)
	if err != nil && c.refusal == nil && ctx.Err() != nil {
		return // whether it runs is the next life's to find out
	}
	if err != nil {
		e.ended(ctx, c, e.failure(ctx, c, err), report)
		return
	}
	var last shim.Status
	c.conn.Run(ctx, func(status shim.Status) { last = status })
	if ctx.Err() != nil && !last.Exited {
		return // the container runs on, without us
	}
	if child != nil {
		_ = child.Wait() // how the shim has ended stands in the directory
	}
	if !last.Exited {
		last = e.lookUp(ctx, c)
	}
	e.ended(ctx, c, last, report)
}

// connect gives a container its shim, and the signals that have waited for it. The
// child is nil when another life of the runtime has started the shim.
func (e *Engine) connect(ctx context.Context, c *container, report engine.Report) (*exec.Cmd, error) {
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
	c.conn = fresh.conn // before anyone hears that the container runs, and asks something of it
	for _, signal := range c.signals {
		c.conn.Ask(signal)
	}
	c.signals = nil
	e.mu.Unlock()
	report(c.id, e.status(fresh.status))
	return fresh.child, nil
}

// failure is the end of a container to whose shim nobody could talk: it may have run and
// ended before, or could not be started.
func (e *Engine) failure(ctx context.Context, c *container, why error) shim.Status {
	if c.refusal == nil {
		if status := e.lookUp(ctx, c); !status.Lost {
			return status
		}
	}
	return shim.Status{Exited: true, Code: engine.ExitStartError, Failed: why.Error(), FinishedAt: clock.Clock{}.Now()}
}

// startShim starts a container's shim, and connects to it.
func (e *Engine) startShim(ctx context.Context, c *container) (started, error) {
	if err := e.cfg.Cgroups.Make(c.spec.Limits.Cgroup, c.request.Resources); err != nil {
		return started{}, err
	}
	if err := shim.Prepare(c.dir, c.spec); err != nil {
		return started{}, err
	}
	child, err := e.spawn(c)
	if err != nil {
		return started{}, fmt.Errorf("start the shim: %w", err)
	}
	conn, status, err := shim.Dial(ctx, c.dir)
	switch {
	case err != nil && ctx.Err() != nil:
		return started{}, err // it goes on without us
	case err != nil:
		_ = child.Process.Kill() // most have ended by themselves; another one is of no use, and its program goes with it
		return started{}, errors.Join(fmt.Errorf("talk to the shim: %w", err), child.Wait())
	}
	return started{child, conn, status}, nil
}

// started is a shim that this life of the runtime has started.
type started struct {
	child  *exec.Cmd
	conn   *shim.Conn
	status shim.Status
}

// spawn starts a shim in a session of its own, and waits until it listens or has gone.
func (e *Engine) spawn(c *container) (*exec.Cmd, error) {
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

// lookUp is the end of a container whose shim has gone without a word.
func (e *Engine) lookUp(ctx context.Context, c *container) shim.Status {
	status, err := shim.End(c.dir, c.id)
	for i := 0; i < tries && errors.Is(err, shim.ErrClaimed); i++ { // going, and not yet gone
		if err = (clock.Clock{}).Sleep(ctx, pause); err == nil {
			status, err = shim.End(c.dir, c.id)
		}
	}
	if err != nil {
		e.cfg.Log.ErrorContext(ctx, "nobody knows how a container has ended", "container", c.id, "err", err)
		return shim.Status{Exited: true, Lost: true, Code: engine.ExitUnknown, FinishedAt: clock.Clock{}.Now()}
	}
	return status
}

// ended reports an end, or clears up after a container that was removed meanwhile.
func (e *Engine) ended(ctx context.Context, c *container, status shim.Status, report engine.Report) {
	e.mu.Lock()
	c.exited = true
	removed := c.removed
	e.mu.Unlock()
	if removed {
		e.clear(ctx, c)
		return
	}
	report(c.id, e.status(status))
}

// status is a shim's status in the engine's words and the cluster's time.
func (e *Engine) status(s shim.Status) engine.Status {
	status := engine.Status{StartedAt: e.cfg.Clock.Of(s.StartedAt)}
	switch {
	case s.Running:
		status.State, status.PID = proto.ContainerState_CONTAINER_STATE_RUNNING, s.PID
		return status
	case !s.Exited:
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_EXITED
	status.FinishedAt, status.ExitCode = e.cfg.Clock.Of(s.FinishedAt), s.Code
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
