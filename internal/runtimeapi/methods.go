package runtimeapi

import (
	"context"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/proto"
)

// The methods, by CRI's names: cri.<Method> is their subject.
const (
	runPodSandbox    = "RunPodSandbox"
	stopPodSandbox   = "StopPodSandbox"
	removePodSandbox = "RemovePodSandbox"
	podSandboxStatus = "PodSandboxStatus"
	listPodSandbox   = "ListPodSandbox"
	createContainer  = "CreateContainer"
	startContainer   = "StartContainer"
	stopContainer    = "StopContainer"
	removeContainer  = "RemoveContainer"
	containerStatus  = "ContainerStatus"
	listContainers   = "ListContainers"
	execSync         = "ExecSync"
	reach            = "Reach"
	containerLogs    = "ContainerLogs"
	imageStatus      = "ImageStatus"
	pullImage        = "PullImage"

	// cancel is not a method: it is published without an answer, and names a call to cancel.
	cancel = "Cancel"
)

// requestTimeout is the kubelet's timeout for calls without their own. It is added to the timeout
// of calls that have one (CRI-06).
const requestTimeout = 2 * time.Minute

// noLimit is the timeout of a call without a deadline.
const noLimit time.Duration = 0

// method describes one call to the client and the server.
type method struct {
	// request returns an empty request of the method's type.
	request func() protobuf.Message
	// answer returns an empty answer of the method's type.
	answer func() protobuf.Message
	// limit returns the call's timeout in cluster time; noLimit for none.
	limit func(req protobuf.Message) time.Duration
	// serve makes the call on rt.
	serve func(ctx context.Context, rt Runtime, req protobuf.Message) (protobuf.Message, error)
}

// methods returns all methods by name.
func methods() map[string]method {
	return map[string]method{
		runPodSandbox: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.RunPodSandboxRequest) (*proto.RunPodSandboxResponse, error) {
			sandbox, err := rt.RunPodSandbox(ctx, q)
			return &proto.RunPodSandboxResponse{Sandbox: sandbox}, err
		}),
		stopPodSandbox: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.StopPodSandboxRequest) (*proto.StopPodSandboxResponse, error) {
			return &proto.StopPodSandboxResponse{}, rt.StopPodSandbox(ctx, q.SandboxId)
		}),
		removePodSandbox: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.RemovePodSandboxRequest) (*proto.RemovePodSandboxResponse, error) {
			return &proto.RemovePodSandboxResponse{}, rt.RemovePodSandbox(ctx, q.SandboxId)
		}),
		podSandboxStatus: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.PodSandboxStatusRequest) (*proto.PodSandboxStatusResponse, error) {
			sandbox, err := rt.PodSandboxStatus(ctx, q.SandboxId)
			return &proto.PodSandboxStatusResponse{Sandbox: sandbox}, err
		}),
		listPodSandbox: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.ListPodSandboxRequest) (*proto.ListPodSandboxResponse, error) {
			sandboxes, err := rt.ListPodSandbox(ctx, q.PodUid)
			return &proto.ListPodSandboxResponse{Sandboxes: sandboxes}, err
		}),
		createContainer: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.CreateContainerRequest) (*proto.CreateContainerResponse, error) {
			id, err := rt.CreateContainer(ctx, q)
			return &proto.CreateContainerResponse{ContainerId: id}, err
		}),
		startContainer: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.StartContainerRequest) (*proto.StartContainerResponse, error) {
			return &proto.StartContainerResponse{}, rt.StartContainer(ctx, q.ContainerId)
		}),
		stopContainer: newMethod(stopLimit, func(ctx context.Context, rt Runtime, q *proto.StopContainerRequest) (*proto.StopContainerResponse, error) {
			return &proto.StopContainerResponse{}, rt.StopContainer(ctx, q.ContainerId, q.TimeoutSeconds)
		}),
		removeContainer: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.RemoveContainerRequest) (*proto.RemoveContainerResponse, error) {
			return &proto.RemoveContainerResponse{}, rt.RemoveContainer(ctx, q.ContainerId)
		}),
		containerStatus: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.ContainerStatusRequest) (*proto.ContainerStatusResponse, error) {
			container, err := rt.ContainerStatus(ctx, q.ContainerId)
			return &proto.ContainerStatusResponse{Container: container}, err
		}),
		listContainers: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.ListContainersRequest) (*proto.ListContainersResponse, error) {
			containers, err := rt.ListContainers(ctx, q.PodUid)
			return &proto.ListContainersResponse{Containers: containers}, err
		}),
		execSync: newMethod(execLimit, func(ctx context.Context, rt Runtime, q *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
			return rt.ExecSync(ctx, q)
		}),
		reach: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.ReachRequest) (*proto.ReachResponse, error) {
			return rt.Reach(ctx, q)
		}),
		containerLogs: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.ContainerLogsRequest) (*proto.ContainerLogsResponse, error) {
			log, err := rt.ContainerLogs(ctx, q)
			return &proto.ContainerLogsResponse{Log: log}, err
		}),
		imageStatus: newMethod(defaultLimit, func(ctx context.Context, rt Runtime, q *proto.ImageStatusRequest) (*proto.ImageStatusResponse, error) {
			present, err := rt.ImageStatus(ctx, q.Image)
			return &proto.ImageStatusResponse{Present: present}, err
		}),
		pullImage: newMethod(pullLimit, func(ctx context.Context, rt Runtime, q *proto.PullImageRequest) (*proto.PullImageResponse, error) {
			size, err := rt.PullImage(ctx, q.Image)
			return &proto.PullImageResponse{SizeBytes: size}, err
		}),
	}
}

// message is a generated message of type T.
type message[T any] interface {
	*T
	protobuf.Message
}

// newMethod builds a method without type parameters from limit and serve.
func newMethod[Q, A any, PQ message[Q], PA message[A]](
	limit func(PQ) time.Duration, serve func(context.Context, Runtime, PQ) (PA, error),
) method {
	return method{
		request: func() protobuf.Message { return PQ(new(Q)) },
		answer:  func() protobuf.Message { return PA(new(A)) },
		limit: func(req protobuf.Message) time.Duration {
			own, ok := req.(PQ)
			if !ok {
				return requestTimeout
			}
			return limit(own)
		},
		serve: func(ctx context.Context, rt Runtime, req protobuf.Message) (protobuf.Message, error) {
			own, ok := req.(PQ)
			if !ok {
				return nil, &proto.RuntimeError{Code: proto.CodeInvalidArgument, Desc: "not this method's request"}
			}
			answer, err := serve(ctx, rt, own)
			if err != nil {
				return nil, err
			}
			return answer, nil
		},
	}
}

// pullLimit sets no timeout, as upstream's pulls have none.
func pullLimit(*proto.PullImageRequest) time.Duration { return noLimit }

func defaultLimit[Q protobuf.Message](Q) time.Duration { return requestTimeout }

func stopLimit(req *proto.StopContainerRequest) time.Duration {
	return requestTimeout + secondsToDuration(req.TimeoutSeconds)
}

func execLimit(req *proto.ExecSyncRequest) time.Duration {
	if req.TimeoutSeconds <= 0 {
		return noLimit
	}
	return requestTimeout + secondsToDuration(req.TimeoutSeconds)
}

// maxSeconds is far above any grace period, and its sums do not overflow a time.Duration.
const maxSeconds = int64(100 * 365 * 24 * time.Hour / time.Second)

// secondsToDuration converts n to a duration from 0 to a hundred years.
func secondsToDuration(n int64) time.Duration {
	return time.Duration(min(max(n, 0), maxSeconds)) * time.Second
}
