package runtimeapi_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/podfall/podfall/proto"
)

// fake is a runtime that passes every call as text to one function.
type fake struct {
	do func(ctx context.Context, call string) error
}

func (f fake) RunPodSandbox(ctx context.Context, q *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	return &proto.Sandbox{Id: "s1", PodUid: q.PodUid, Ip: "10.0.0.1"}, f.do(ctx, "RunPodSandbox "+q.PodUid)
}

func (f fake) StopPodSandbox(ctx context.Context, id string) error {
	return f.do(ctx, "StopPodSandbox "+id)
}

func (f fake) RemovePodSandbox(ctx context.Context, id string) error {
	return f.do(ctx, "RemovePodSandbox "+id)
}

func (f fake) PodSandboxStatus(ctx context.Context, id string) (*proto.Sandbox, error) {
	return &proto.Sandbox{Id: id, State: proto.SandboxState_SANDBOX_STATE_NOTREADY}, f.do(ctx, "PodSandboxStatus "+id)
}

func (f fake) ListPodSandbox(ctx context.Context, uid string) ([]*proto.Sandbox, error) {
	return []*proto.Sandbox{{Id: "s1"}, {Id: "s2"}}, f.do(ctx, "ListPodSandbox "+uid)
}

func (f fake) CreateContainer(ctx context.Context, q *proto.CreateContainerRequest) (string, error) {
	return "c1", f.do(ctx, "CreateContainer "+q.Name+" "+q.Script)
}

func (f fake) StartContainer(ctx context.Context, id string) error {
	return f.do(ctx, "StartContainer "+id)
}

func (f fake) StopContainer(ctx context.Context, id string, timeout int64) error {
	return f.do(ctx, fmt.Sprintf("StopContainer %s %d", id, timeout))
}

func (f fake) RemoveContainer(ctx context.Context, id string) error {
	return f.do(ctx, "RemoveContainer "+id)
}

func (f fake) ContainerStatus(ctx context.Context, id string) (*proto.Container, error) {
	return &proto.Container{Id: id, ExitCode: 137}, f.do(ctx, "ContainerStatus "+id)
}

// bigLabel makes a list too large for one part of an answer.
var bigLabel = string(bytes.Repeat([]byte("x"), 300_000))

func (f fake) ListContainers(ctx context.Context, uid string) ([]*proto.Container, error) {
	many := make([]*proto.Container, 5)
	for i := range many {
		many[i] = &proto.Container{Id: fmt.Sprint(i), Labels: map[string]string{"big": bigLabel}}
	}
	return many, f.do(ctx, "ListContainers "+uid)
}

func (f fake) ExecSync(ctx context.Context, q *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	return &proto.ExecSyncResponse{ExitCode: 3}, f.do(ctx, fmt.Sprint("ExecSync ", q.Command))
}

func (f fake) Reach(ctx context.Context, q *proto.ReachRequest) (*proto.ReachResponse, error) {
	return &proto.ReachResponse{Code: 204}, f.do(ctx, fmt.Sprint("Reach ", q.Scheme, " ", q.Port))
}

func (f fake) ContainerLogs(ctx context.Context, q *proto.ContainerLogsRequest) ([]byte, error) {
	return []byte("a line\n"), f.do(ctx, "ContainerLogs "+q.ContainerId)
}

func (f fake) ImageStatus(ctx context.Context, image string) (bool, error) {
	return true, f.do(ctx, "ImageStatus "+image)
}

func (f fake) PullImage(ctx context.Context, image string) (int64, error) {
	return 42, f.do(ctx, "PullImage "+image)
}
