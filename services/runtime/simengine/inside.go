package simengine

import (
	"context"
	"errors"
	"fmt"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// Exec implements [engine.Engine]. The command ends as the script says and writes nothing.
func (e *Engine) Exec(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	script, _, err := e.lookup(req.ContainerId)
	if err != nil {
		return nil, err
	}
	if script.ExecHangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if script.Exec == nil {
		return &proto.ExecSyncResponse{}, nil
	}
	if err := e.clock.Sleep(ctx, script.Exec.After); err != nil {
		return nil, err
	}
	return &proto.ExecSyncResponse{ExitCode: script.Exec.Code}, nil
}

// Stream implements [engine.Engine]. A command without stdin or terminal ends as the script says,
// if the script has an exec clause. Everything else fails, because there is no process.
func (e *Engine) Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error {
	script, _, err := e.lookup(req.ContainerId)
	switch {
	case err != nil:
		return err
	case len(req.Command) == 0:
		return &proto.RuntimeError{Code: proto.CodeUnimplemented, Desc: "is scripted: it has no process to attach to"}
	case req.Stdin || req.Tty || (script.Exec == nil && !script.ExecHangs):
		return &proto.RuntimeError{Code: proto.CodeUnimplemented, Desc: "is scripted: it has no process to run a command in"}
	}
	if err := remote.Offer(ctx, client); err != nil {
		return err
	}
	return daemon.Run(ctx,
		func(ctx context.Context) error {
			answer, err := e.Exec(ctx, &proto.ExecSyncRequest{ContainerId: req.ContainerId, Command: req.Command})
			if err != nil {
				return err
			}
			return remote.SendStatus(ctx, client, proto.ExitStatus(answer.GetExitCode()))
		},
		func(ctx context.Context) error {
			select {
			case <-client.Done():
			case <-ctx.Done():
			}
			return nil
		},
	)
}

var errNoAnswer = errors.New("connect: connection refused")

// Reach implements [engine.Engine]. A container either answers with success or refuses the
// connection.
func (e *Engine) Reach(_ context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	script, events, err := e.lookup(req.ContainerId)
	if err != nil {
		return nil, err
	}
	if !script.Answers(events.Start.Add(script.StartAfter), e.clock.Steady()) {
		return nil, fmt.Errorf("dial port %d: %w", req.Port, errNoAnswer)
	}
	answer := &proto.ReachResponse{}
	switch req.Scheme {
	case "http", "https":
		answer.Code = 200
	case "grpc":
		answer.Code = 1
	}
	return answer, nil
}

// lookup returns a container's script and events.
func (e *Engine) lookup(id string) (*Script, engine.Events, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return nil, engine.Events{}, notLoaded(id)
	}
	return c.script, c.events, nil
}
