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

	// cancel is no method: it is published, not asked, and names a call to end.
	cancel = "Cancel"
)

// requestTimeout is what a kubelet gives a call that has no timeout of its own, and
// adds to the timeout of one that has (CRI-06).
const requestTimeout = 2 * time.Minute

// noLimit is the deadline of a call that may take for ever.
const noLimit time.Duration = 0

// method is one row of the contract: all that the client and the server need to know
// of a call.
type method struct {
	// request is an empty request of the method's own type.
	request func() protobuf.Message
	// answer is an empty answer, of the method's own type.
	answer func() protobuf.Message
	// limit is the call's deadline in cluster time; noLimit means none.
	limit func(req protobuf.Message) time.Duration
	// serve makes the call on rt.
	serve func(ctx context.Context, rt Runtime, req protobuf.Message) (protobuf.Message, error)
}

// methods is the whole contract, a row a method.
func methods() map[string]method {
	return map[string]method{
		runPodSandbox: row(usual, func(ctx context.Context, rt Runtime, q *proto.RunPodSandboxRequest) (*proto.RunPodSandboxResponse, error) {
			sandbox, err := rt.RunPodSandbox(ctx, q)
			return &proto.RunPodSandboxResponse{Sandbox: sandbox}, err
		}),
		stopPodSandbox: row(usual, func(ctx context.Context, rt Runtime, q *proto.StopPodSandboxRequest) (*proto.StopPodSandboxResponse, error) {
			return &proto.StopPodSandboxResponse{}, rt.StopPodSandbox(ctx, q.SandboxId)
		}),
		removePodSandbox: row(usual, func(ctx context.Context, rt Runtime, q *proto.RemovePodSandboxRequest) (*proto.RemovePodSandboxResponse, error) {
			return &proto.RemovePodSandboxResponse{}, rt.RemovePodSandbox(ctx, q.SandboxId)
		}),
		podSandboxStatus: row(usual, func(ctx context.Context, rt Runtime, q *proto.PodSandboxStatusRequest) (*proto.PodSandboxStatusResponse, error) {
			sandbox, err := rt.PodSandboxStatus(ctx, q.SandboxId)
			return &proto.PodSandboxStatusResponse{Sandbox: sandbox}, err
		}),
		listPodSandbox: row(usual, func(ctx context.Context, rt Runtime, q *proto.ListPodSandboxRequest) (*proto.ListPodSandboxResponse, error) {
			sandboxes, err := rt.ListPodSandbox(ctx, q.PodUid)
			return &proto.ListPodSandboxResponse{Sandboxes: sandboxes}, err
		}),
		createContainer: row(usual, func(ctx context.Context, rt Runtime, q *proto.CreateContainerRequest) (*proto.CreateContainerResponse, error) {
			id, err := rt.CreateContainer(ctx, q)
			return &proto.CreateContainerResponse{ContainerId: id}, err
		}),
		startContainer: row(usual, func(ctx context.Context, rt Runtime, q *proto.StartContainerRequest) (*proto.StartContainerResponse, error) {
			return &proto.StartContainerResponse{}, rt.StartContainer(ctx, q.ContainerId)
		}),
		stopContainer: row(stopping, func(ctx context.Context, rt Runtime, q *proto.StopContainerRequest) (*proto.StopContainerResponse, error) {
			return &proto.StopContainerResponse{}, rt.StopContainer(ctx, q.ContainerId, q.TimeoutSeconds)
		}),
		removeContainer: row(usual, func(ctx context.Context, rt Runtime, q *proto.RemoveContainerRequest) (*proto.RemoveContainerResponse, error) {
			return &proto.RemoveContainerResponse{}, rt.RemoveContainer(ctx, q.ContainerId)
		}),
		containerStatus: row(usual, func(ctx context.Context, rt Runtime, q *proto.ContainerStatusRequest) (*proto.ContainerStatusResponse, error) {
			container, err := rt.ContainerStatus(ctx, q.ContainerId)
			return &proto.ContainerStatusResponse{Container: container}, err
		}),
		listContainers: row(usual, func(ctx context.Context, rt Runtime, q *proto.ListContainersRequest) (*proto.ListContainersResponse, error) {
			containers, err := rt.ListContainers(ctx, q.PodUid)
			return &proto.ListContainersResponse{Containers: containers}, err
		}),
		execSync: row(executing, func(ctx context.Context, rt Runtime, q *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
			return rt.ExecSync(ctx, q)
		}),
		reach: row(usual, func(ctx context.Context, rt Runtime, q *proto.ReachRequest) (*proto.ReachResponse, error) {
			return rt.Reach(ctx, q)
		}),
		containerLogs: row(usual, func(ctx context.Context, rt Runtime, q *proto.ContainerLogsRequest) (*proto.ContainerLogsResponse, error) {
			log, err := rt.ContainerLogs(ctx, q)
			return &proto.ContainerLogsResponse{Log: log}, err
		}),
		imageStatus: row(usual, func(ctx context.Context, rt Runtime, q *proto.ImageStatusRequest) (*proto.ImageStatusResponse, error) {
			present, err := rt.ImageStatus(ctx, q.Image)
			return &proto.ImageStatusResponse{Present: present}, err
		}),
		pullImage: row(pulling, func(ctx context.Context, rt Runtime, q *proto.PullImageRequest) (*proto.PullImageResponse, error) {
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

// row is the method that limit and serve describe, freed of its types.
func row[Q, A any, PQ message[Q], PA message[A]](
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

// pulling takes as long as it takes, as upstream's pulls do.
func pulling(*proto.PullImageRequest) time.Duration { return noLimit }

func usual[Q protobuf.Message](Q) time.Duration { return requestTimeout }

func stopping(req *proto.StopContainerRequest) time.Duration {
	return requestTimeout + seconds(req.TimeoutSeconds)
}

func executing(req *proto.ExecSyncRequest) time.Duration {
	if req.TimeoutSeconds <= 0 {
		return noLimit
	}
	return requestTimeout + seconds(req.TimeoutSeconds)
}

// longest is as many seconds as a grace may have: far beyond any, and its sums do not
// overflow a time.Duration.
const longest = int64(100 * 365 * 24 * time.Hour / time.Second)

// seconds is n seconds, at least none and at most a hundred years.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), longest)) * time.Second
}
