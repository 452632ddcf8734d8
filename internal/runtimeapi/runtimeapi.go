// Package runtimeapi is how a kubelet speaks to its node's runtime: the calls of the
// Container Runtime Interface that pod deletion needs, as Go interfaces, with the
// client and the server that carry them over the node bus. It decides nothing: what a
// call does is services/runtime's, when it is made is services/kubelet's.
//
// # Deadlines
//
// The client gives every call the deadline that a kubelet gives it (CRI-06), on the
// cluster's clock, and sends it along. The runtime ends the call at that instant and
// says why in its own words; the client waits a moment longer for them, and only
// then answers in its own: "rpc error: code = DeadlineExceeded desc = context
// deadline exceeded".
//
// # Giving up
//
// A call ends on the runtime's side when its deadline has passed, when the context
// that its caller gave ends, and when a newer incarnation of the caller asks for
// anything. Whether the caller has left the node bus is [StillWanted]'s to say, which a
// runtime asks before SIGKILL: a stop that nobody waits for sends none (CRI-07).
//
// # Errors
//
// Every error that a [Client] returns is a [proto.RuntimeError], whose text is a gRPC
// client's. A runtime that is away is Unavailable, at once; callers retry (CRI-15).
package runtimeapi

import (
	"context"

	"github.com/podfall/podfall/proto"
)

// Sandboxes are the calls about pods' sandboxes. Stopping and removing succeed for an
// unknown id too; asking for its status is NotFound (CRI-02).
type Sandboxes interface {
	// RunPodSandbox makes a sandbox with an address of its own, and returns it READY.
	RunPodSandbox(ctx context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error)
	// StopPodSandbox kills what still runs in the sandbox, then releases its address
	// (CRI-04). It may be called again.
	StopPodSandbox(ctx context.Context, id string) error
	// RemovePodSandbox stops the sandbox and forgets it and its containers.
	RemovePodSandbox(ctx context.Context, id string) error
	// PodSandboxStatus is one sandbox as it is now.
	PodSandboxStatus(ctx context.Context, id string) (*proto.Sandbox, error)
	// ListPodSandbox lists the sandboxes of a pod, or all when podUID is empty, in
	// the order in which they were created.
	ListPodSandbox(ctx context.Context, podUID string) ([]*proto.Sandbox, error)
}

// Containers are the calls about single containers. Stopping and removing succeed for
// an unknown id too; starting it, or asking for its status, is NotFound (CRI-02).
type Containers interface {
	// CreateContainer makes a container in a sandbox that is READY, and returns its id.
	CreateContainer(ctx context.Context, req *proto.CreateContainerRequest) (id string, err error)
	// StartContainer returns when the container runs, or has failed to.
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the container's stop signal, waits up to timeoutSeconds,
	// then kills; 0 or less kills at once (CRI-03). It returns when the container has
	// exited.
	StopContainer(ctx context.Context, id string, timeoutSeconds int64) error
	// RemoveContainer kills the container if it runs, and forgets it and its logs
	// (CRI-16).
	RemoveContainer(ctx context.Context, id string) error
	// ContainerStatus is one container as it is now.
	ContainerStatus(ctx context.Context, id string) (*proto.Container, error)
	// ListContainers lists the containers of a pod, or all when podUID is empty, in
	// the order in which they were created.
	ListContainers(ctx context.Context, podUID string) ([]*proto.Container, error)
}

// Tasks are the calls that look inside a container.
type Tasks interface {
	// ExecSync runs a command in a running container and returns what it wrote. A
	// timeout of 0 seconds means none.
	ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	// Reach asks a running container over its network, as a kubelet's hooks and probes do.
	// An error means that there was no answer.
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
	// ContainerLogs is what a container has written, as far as it is kept.
	ContainerLogs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error)
}

// Images are the calls about images, named as pods name them.
type Images interface {
	// ImageStatus reports whether the image is on the node.
	ImageStatus(ctx context.Context, image string) (present bool, err error)
	// PullImage brings the image to the node, however long that takes, and returns its
	// size in bytes.
	PullImage(ctx context.Context, image string) (size int64, err error)
}

// Runtime is a container runtime, as a kubelet sees it.
type Runtime interface {
	Sandboxes
	Containers
	Tasks
	Streams
	Images
}
