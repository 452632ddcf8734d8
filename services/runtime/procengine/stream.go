package procengine

import (
	"context"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// Stream implements [engine.Engine]. The command must be allowed, as the container's program must
// be. It ends with the connection to the shim, and so with this process too.
func (e *Engine) Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error {
	e.mu.Lock()
	c, ok := e.containers[req.ContainerId]
	if !ok {
		e.mu.Unlock()
		return notLoaded(req.ContainerId)
	}
	running := c.conn != nil && !c.exited
	e.mu.Unlock()
	if !running {
		return errNotRunning
	}
	stream := shim.Stream{Stdin: req.Stdin, Stdout: req.Stdout, Stderr: req.Stderr, TTY: req.Tty}
	if len(req.Command) > 0 {
		program, err := e.cfg.Allow.ResolveProgram(req.Command[0])
		if err != nil {
			return err
		}
		stream.Command = &shim.Command{Program: program, Args: req.Command}
	}
	process, err := shim.Converse(ctx, c.dir, stream)
	if err != nil {
		return err
	}
	defer process.Close()
	return remote.Relay(ctx, client, process)
}
