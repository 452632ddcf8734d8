// Package runtimeapi connects a kubelet to its node's runtime. It has the calls of the Container
// Runtime Interface that pod deletion needs, as Go interfaces, with a client and a server that
// carry them over the node bus. It decides nothing: services/runtime defines what a call does,
// services/kubelet when it is made.
//
// # Deadlines
//
// The client gives every call the deadline that a kubelet gives it (CRI-06), on the cluster's
// clock, and sends the deadline along. The runtime ends the call at that instant and returns its
// own error. The client waits a moment longer for that error. Only then it returns an error itself:
// "rpc error: code = DeadlineExceeded desc = context deadline exceeded".
//
// # Cancellation
//
// The runtime ends a call when its deadline has passed, when the caller's context ends, and when a
// newer incarnation of the caller makes any call. [IsCallerWaiting] tells whether the caller has
// left the node bus. A runtime checks it before SIGKILL: a stop without a waiting caller sends none
// (CRI-07).
//
// # Errors
//
// Every error that a [Client] returns is a [proto.RuntimeError] with the text of a gRPC client. If
// the runtime is not connected, calls fail with Unavailable at once; callers retry (CRI-15).
package runtimeapi

import (
	"context"

	"github.com/podfall/podfall/proto"
)

// Sandboxes are the calls for pods' sandboxes. Stopping and removing succeed for unknown ids too;
// the status of an unknown id is NotFound (CRI-02).
type Sandboxes interface {
	// RunPodSandbox creates a sandbox with an address of its own and returns it READY.
	RunPodSandbox(ctx context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error)
	// StopPodSandbox kills what still runs in the sandbox, then releases its address (CRI-04). It
	// is idempotent.
	StopPodSandbox(ctx context.Context, id string) error
	// RemovePodSandbox stops the sandbox and removes it with its containers.
	RemovePodSandbox(ctx context.Context, id string) error
	// PodSandboxStatus returns one sandbox.
	PodSandboxStatus(ctx context.Context, id string) (*proto.Sandbox, error)
	// ListPodSandbox lists the sandboxes of a pod, or all if podUID is empty, in order of creation.
	ListPodSandbox(ctx context.Context, podUID string) ([]*proto.Sandbox, error)
}

// Containers are the calls for single containers. Stopping and removing succeed for unknown ids
// too; starting an unknown id, and its status, are NotFound (CRI-02).
type Containers interface {
	// CreateContainer creates a container in a READY sandbox and returns its id.
	CreateContainer(ctx context.Context, req *proto.CreateContainerRequest) (id string, err error)
	// StartContainer returns when the container runs or has failed to start.
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the container's stop signal, waits up to timeoutSeconds, then kills; 0 or
	// less kills at once (CRI-03). It returns when the container has exited.
	StopContainer(ctx context.Context, id string, timeoutSeconds int64) error
	// RemoveContainer kills the container if it runs, and removes it with its logs (CRI-16).
	RemoveContainer(ctx context.Context, id string) error
	// ContainerStatus returns one container.
	ContainerStatus(ctx context.Context, id string) (*proto.Container, error)
	// ListContainers lists the containers of a pod, or all if podUID is empty, in order of
	// creation.
	ListContainers(ctx context.Context, podUID string) ([]*proto.Container, error)
}

// Tasks are the calls into a running container.
type Tasks interface {
	// ExecSync runs a command in a running container and returns its output. A timeout of 0 seconds
	// means none.
	ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	// Reach calls a running container over its network, as a kubelet's hooks and probes do. An
	// error means that there was no answer.
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
	// ContainerLogs returns a container's output, as far as it is kept.
	ContainerLogs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error)
}

// Images are the calls for images, by the names that pods use.
type Images interface {
	// ImageStatus reports whether the image is on the node.
	ImageStatus(ctx context.Context, image string) (present bool, err error)
	// PullImage pulls the image to the node, however long that takes, and returns its size in
	// bytes.
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
