package runtime

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// The handlers of the two engines: what a pod's runtimeClassName says.
const (
	HandlerScripted = "scripted"
	HandlerProcess  = "process"
)

// engines dispatches each container's calls to the engine of its handler.
type engines struct {
	byHandler map[string]engine.Engine
	// fallback is the handler of sandboxes that ask for none.
	fallback string

	mu   sync.RWMutex
	byID map[string]engine.Engine
}

var _ engine.Engine = (*engines)(nil)

func newEngines(byHandler map[string]engine.Engine, otherwise string) *engines {
	return &engines{byHandler: byHandler, fallback: otherwise, byID: map[string]engine.Engine{}}
}

// resolveHandler returns the requested handler, or the fallback if asked is empty.
func (e *engines) resolveHandler(requested string) (string, error) {
	requested = cmp.Or(requested, e.fallback)
	if _, known := e.byHandler[requested]; !known {
		have := strings.Join(slices.Sorted(maps.Keys(e.byHandler)), ", ")
		return "", errorf(proto.CodeUnknown, "no runtime for %q is configured: want one of %s", requested, have)
	}
	return requested, nil
}

// Run implements [engine.Engine].
func (e *engines) Run(ctx context.Context, report engine.Report) error {
	group := daemon.NewGroup(ctx)
	for _, one := range e.byHandler {
		group.Go(func(ctx context.Context) error { return one.Run(ctx, report) })
	}
	return group.Wait()
}

// Load implements [engine.Engine]. If the engine of a recorded container is no longer configured,
// Load reports the container as exited with an unknown result (CRI-11), so that the runtime can
// still start.
func (e *engines) Load(ctx context.Context, c engine.Container) (engine.Status, error) {
	one, known := e.byHandler[cmp.Or(c.Handler, HandlerScripted)] // old records have no handler
	if !known {
		return engine.Status{
			State: proto.ContainerState_CONTAINER_STATE_EXITED, StartedAt: c.Events.Start, FinishedAt: c.Events.Start,
			ExitCode: engine.ExitUnknown, Reason: engine.ReasonUnknown,
			Message: fmt.Sprintf("no runtime for %q is configured", c.Handler),
		}, nil
	}
	status, err := one.Load(ctx, c)
	if err != nil {
		return status, err
	}
	e.mu.Lock()
	e.byID[c.ID] = one
	e.mu.Unlock()
	return status, nil
}

// engineOf returns the engine of a loaded container.
func (e *engines) engineOf(id string) (engine.Engine, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	one, loaded := e.byID[id]
	if !loaded {
		return nil, fmt.Errorf("container %q is not loaded", id)
	}
	return one, nil
}

// Start implements [engine.Engine].
func (e *engines) Start(ctx context.Context, id string, at time.Time) error {
	one, err := e.engineOf(id)
	if err != nil {
		return err
	}
	return one.Start(ctx, id, at)
}

// Signal implements [engine.Engine].
func (e *engines) Signal(ctx context.Context, id, signal string, at time.Time) error {
	one, err := e.engineOf(id)
	if err != nil {
		return nil //nolint:nilerr // removed containers are no error
	}
	return one.Signal(ctx, id, signal, at)
}

// Exec implements [engine.Engine].
func (e *engines) Exec(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	one, err := e.engineOf(req.ContainerId)
	if err != nil {
		return nil, err
	}
	return one.Exec(ctx, req)
}

// Stream implements [engine.Engine].
func (e *engines) Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error {
	one, err := e.engineOf(req.ContainerId)
	if err != nil {
		return err
	}
	return one.Stream(ctx, req, client)
}

// Reach implements [engine.Engine].
func (e *engines) Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	one, err := e.engineOf(req.ContainerId)
	if err != nil {
		return nil, err
	}
	return one.Reach(ctx, req)
}

// Logs implements [engine.Engine].
func (e *engines) Logs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	one, err := e.engineOf(req.ContainerId)
	if err != nil {
		return nil, err
	}
	return one.Logs(ctx, req)
}

// Remove implements [engine.Engine].
func (e *engines) Remove(ctx context.Context, id string) {
	e.mu.Lock()
	one, loaded := e.byID[id]
	delete(e.byID, id)
	e.mu.Unlock()
	if loaded {
		one.Remove(ctx, id)
	}
}
