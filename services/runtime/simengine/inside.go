package simengine

import (
	"context"
	"errors"
	"fmt"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// Exec implements [engine.Engine]: a command ends as the script says, and writes nothing.
func (e *Engine) Exec(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	script, _, err := e.look(req.ContainerId)
	if err != nil {
		return nil, err
	}
	if script.ExecHangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := e.clock.Sleep(ctx, script.Exec.After); err != nil {
		return nil, err
	}
	return &proto.ExecSyncResponse{ExitCode: script.Exec.Code}, nil
}

var errNoAnswer = errors.New("connect: connection refused")

// Reach implements [engine.Engine]: a container answers well, or not at all.
func (e *Engine) Reach(_ context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	script, events, err := e.look(req.ContainerId)
	if err != nil {
		return nil, err
	}
	if !script.Answers(events.Start.Add(script.StartAfter), e.clock.Now()) {
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

// look is a container's script and what has happened to it.
func (e *Engine) look(id string) (*Script, engine.Events, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return nil, engine.Events{}, notLoaded(id)
	}
	return c.script, c.events, nil
}
