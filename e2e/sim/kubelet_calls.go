package sim

import (
	"context"
	"net/http"
	"time"

	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
)

// runtimeClient implements podworker.Runtime by calls over the simulated network.
type runtimeClient struct{ k *kubeletProcess }

// noTimeout is the timeout of calls that may take for ever.
const noTimeout = 30 * 24 * time.Hour

// call calls the runtime and waits for the answer. The call takes no longer than its limit
// and ctx.
func (k *kubeletProcess) call(ctx context.Context, do any, limit time.Duration) (answer RuntimeResponse) {
	if err := ctx.Err(); err != nil {
		return RuntimeResponse{Err: runtimeapi.ToRuntimeError(err)}
	}
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, deadline.Sub(k.incarnation.now))
	}
	answered := make(chan struct{})
	id := k.callRuntime(k.incarnation.now, do, limit, k.out, func(_ time.Time, got RuntimeResponse, _ Out) {
		answer = got
		close(answered)
	})
	if err := k.tasks.Wait(ctx, answered); err != nil {
		k.endCall(id, RuntimeResponse{Err: runtimeapi.ToRuntimeError(err)})
	}
	return answer
}

// RunPodSandbox implements podworker.PodRuntime.
func (r runtimeClient) RunPodSandbox(ctx context.Context, request *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	answer := r.k.call(ctx, RunSandbox{request}, runtimeTimeout)
	made, _ := answer.Body.(*proto.Sandbox)
	return made, answer.Err
}

// StopPodSandbox implements podworker.PodRuntime.
func (r runtimeClient) StopPodSandbox(ctx context.Context, id string) error {
	return r.k.call(ctx, StopSandbox{id}, runtimeTimeout).Err
}

// RemovePodSandbox implements podworker.PodRuntime.
func (r runtimeClient) RemovePodSandbox(ctx context.Context, id string) error {
	return r.k.call(ctx, RemoveSandbox{id}, runtimeTimeout).Err
}

// CreateContainer implements podworker.PodRuntime.
func (r runtimeClient) CreateContainer(ctx context.Context, request *proto.CreateContainerRequest) (string, error) {
	answer := r.k.call(ctx, CreateContainer{request}, runtimeTimeout)
	id, _ := answer.Body.(string)
	return id, answer.Err
}

// StartContainer implements podworker.PodRuntime.
func (r runtimeClient) StartContainer(ctx context.Context, id string) error {
	return r.k.call(ctx, StartContainer{id}, runtimeTimeout).Err
}

// StopContainer implements podworker.PodRuntime.
func (r runtimeClient) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	return r.k.call(ctx, StopContainer{id, timeoutSeconds}, runtimeTimeout+time.Duration(timeoutSeconds)*time.Second).Err
}

// RemoveContainer implements podworker.PodRuntime.
func (r runtimeClient) RemoveContainer(ctx context.Context, id string) error {
	return r.k.call(ctx, RemoveContainer{id}, runtimeTimeout).Err
}

// ExecSync implements podworker.ExecRuntime.
func (r runtimeClient) ExecSync(ctx context.Context, request *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	limit := noTimeout
	if seconds := request.TimeoutSeconds; seconds > 0 {
		limit = runtimeTimeout + time.Duration(seconds)*time.Second
	}
	answer := r.k.call(ctx, Exec{request.ContainerId}, limit)
	if answer.Err != nil {
		return nil, answer.Err
	}
	code, _ := answer.Body.(int32)
	return &proto.ExecSyncResponse{ExitCode: code}, nil
}

// Reach implements podworker.ExecRuntime.
func (r runtimeClient) Reach(ctx context.Context, request *proto.ReachRequest) (*proto.ReachResponse, error) {
	if answer := r.k.call(ctx, Reach{request.ContainerId}, runtimeTimeout); answer.Err != nil {
		return nil, answer.Err
	}
	return &proto.ReachResponse{Code: http.StatusOK}, nil // no run has a probe by gRPC
}
