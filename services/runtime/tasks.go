package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// ExecSync implements runtimeapi.Tasks.
func (s *service) ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	if err := s.checkRunning("exec in", req.ContainerId); err != nil {
		return nil, err
	}
	if limit := req.TimeoutSeconds; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = s.clock.Timeout(ctx, time.Duration(min(limit, maxTimeoutSeconds))*time.Second)
		defer stop()
	}
	answer, killed, err := s.execWhileItRuns(ctx, req)
	switch {
	case killed && err != nil:
		return &proto.ExecSyncResponse{ExitCode: engine.ExitKilled}, nil
	case err != nil:
		return nil, wrapError(err, "failed to exec in container %q", req.ContainerId)
	}
	return answer, nil
}

// lastWords is how long a command may outlive its container, before it counts as killed with it.
const lastWords = 100 * time.Millisecond

// execWhileItRuns runs a command until it or its container ends; killed says that the container has.
func (s *service) execWhileItRuns(ctx context.Context, req *proto.ExecSyncRequest) (answer *proto.ExecSyncResponse, killed bool, err error) {
	s.mu.Lock()
	c := s.containers[req.ContainerId]
	s.mu.Unlock()
	if c == nil {
		return nil, false, notFound("container", req.ContainerId)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	var dead atomic.Bool
	watch.Go(func() {
		s.awaitChange(ctx, c, proto.ContainerState_CONTAINER_STATE_RUNNING, time.Time{})
		if ctx.Err() == nil && s.clock.Sleep(ctx, lastWords) == nil {
			dead.Store(true)
			cancel()
		}
	})
	answer, err = s.engines.Exec(ctx, req)
	return answer, dead.Load(), err
}

// Stream implements runtimeapi.Streams. The stream ends when the container ends.
func (s *service) Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error {
	what := "exec in"
	if len(req.Command) == 0 {
		what = "attach to"
	}
	if err := s.checkRunning(what, req.ContainerId); err != nil {
		return err
	}
	err := s.engines.Stream(ctx, req, client)
	switch {
	case proto.IsRuntimeCode(err, proto.CodeUnimplemented):
		s.mu.Lock()
		defer s.mu.Unlock()
		c := s.containers[req.ContainerId]
		if c == nil {
			return notFound("container", req.ContainerId)
		}
		return errorf(proto.CodeUnimplemented, "container %s of pod %s %s", c.request.Name, c.sandbox.created.PodName, runtimeapi.ToRuntimeError(err).Desc)
	case err != nil:
		return wrapError(err, "failed to %s container %q", what, req.ContainerId)
	}
	return nil
}

// Reach implements runtimeapi.Tasks.
func (s *service) Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	if err := s.checkRunning("reach", req.ContainerId); err != nil {
		return nil, err
	}
	answer, err := s.engines.Reach(ctx, req)
	if err != nil {
		return nil, wrapError(err, "container %q", req.ContainerId)
	}
	return answer, nil
}

// checkRunning fails unless the container is running.
func (s *service) checkRunning(what, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[id]
	switch {
	case !ok:
		return notFound("container", id)
	case c.status.State != proto.ContainerState_CONTAINER_STATE_RUNNING:
		return errorf(proto.CodeUnknown, "failed to %s container %q: it is not running", what, id)
	}
	return nil
}

// ContainerLogs implements runtimeapi.Tasks.
func (s *service) ContainerLogs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	s.mu.Lock()
	_, ok := s.containers[req.ContainerId]
	s.mu.Unlock()
	if !ok {
		return nil, notFound("container", req.ContainerId)
	}
	log, err := s.engines.Logs(ctx, req)
	if err != nil {
		return nil, wrapError(err, "failed to read the logs of container %q", req.ContainerId)
	}
	return log, nil
}

// unixNano returns at in ns since 1970; 0 for the zero time.
func unixNano(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixNano()
}
