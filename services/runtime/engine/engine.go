// Package engine defines the interface between the runtime and what runs its containers' processes.
// There are scripted engines (simengine) and real ones (procengine). Package enginetest is the
// conformance suite that each must pass.
//
// The runtime owns the containers: names, sandboxes, records on disk and the order of a stop. An
// engine owns processes: it starts and signals them, and reports their state.
//
// # Order
//
// A container is loaded once per engine, before any other call for it. Reported states only move
// forward: CREATED, RUNNING, EXITED. CREATED to EXITED is a start that failed. Nothing happens
// unasked: no start without Start, and no end by a signal that was not sent. The runtime makes
// every Start and Signal durable before it calls them.
//
// # Blocking
//
// Only Run, Exec, Stream and Reach wait for a process. Run reports from one goroutine and holds no
// lock while it does, so a report may call the engine.
//
// # Restart
//
// A restarted runtime loads its containers with their recorded events. An engine whose processes
// still run continues with them. If it cannot find a process, it reports EXITED, 255, Unknown
// (CRI-11).
package engine

import (
	"context"
	"time"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

// Engine runs the processes of containers. Its methods are safe for concurrent use.
type Engine interface {
	// Run does the engine's work until ctx ends, and then returns nil. It reports every status
	// change in order. It reports nothing about a removed container once Remove has returned and
	// reports under way are done.
	Run(ctx context.Context, report Report) error
	// Load registers a container and returns its current status. It fails if the engine cannot run
	// the container, for example because its script does not parse.
	Load(ctx context.Context, c Container) (Status, error)
	// Start starts the process of a loaded container as of the time at. The result is reported.
	Start(ctx context.Context, id string, at time.Time) error
	// Signal sends a signal by name, for example SIGTERM, as of the time at, and returns when it
	// has been sent. Signaling an exited or removed container is no error. The effect is reported.
	Signal(ctx context.Context, id, signal string, at time.Time) error
	// Remove deletes the container, its process and its logs. It is idempotent.
	Remove(ctx context.Context, id string)
	ContainerAccess
}

// ContainerAccess acts on a running container. Logs also works after the container has exited.
type ContainerAccess interface {
	// Exec runs a command inside the container and waits for it.
	Exec(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	// Stream connects client to a new command inside the container, or to the container's own
	// program, until either side ends the stream. A command ends when its client leaves. Stream
	// fails if the client was not told how the command ended. A *proto.RuntimeError with
	// CodeUnimplemented says why the container has no process.
	Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error
	// Reach sends a request to the container over its network and waits for the answer.
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
	// Logs returns what the container has written.
	Logs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error)
}

// Report receives a container's new status.
type Report func(id string, status Status)

// Container is what the runtime tells an engine about a container.
type Container struct {
	ID string
	// Handler names the engine, as [proto.Sandbox.RuntimeHandler] does.
	Handler string
	Request *proto.CreateContainerRequest
	Events  Events
}

// Events are the times of what was done to a container. A zero time means that it was not done.
// Times never change once set.
type Events struct {
	// Start is when the start was requested.
	Start time.Time
	// Stop is when the stop signal was sent.
	Stop time.Time
	// Kill is when SIGKILL was first sent.
	Kill time.Time
}

// Status is the state of a container as its engine sees it. The zero Status is CREATED.
type Status struct {
	State proto.ContainerState
	// PID is the process id on the machine while RUNNING; 0 for engines without processes.
	PID int
	// StartedAt is when it started to run; zero if it never did.
	StartedAt time.Time
	// FinishedAt is when it exited; zero before.
	FinishedAt time.Time
	// ExitCode is 0 to 255.
	ExitCode int32
	// Reason is one of the Reason constants once EXITED.
	Reason string
	// Message describes an error; often empty.
	Message string
	// Unreachable means that no signal can be sent, so a stop hangs.
	Unreachable bool
}

// The reasons of an exit (CRI-11).
const (
	ReasonCompleted  = "Completed"
	ReasonError      = "Error"
	ReasonOOMKilled  = "OOMKilled"
	ReasonStartError = "StartError"
	ReasonUnknown    = "Unknown"
)

// The exit codes that are not a program's own (CRI-11, CRI-12).
const (
	ExitStartError = 128
	ExitKilled     = 137
	ExitTerminated = 143
	ExitUnknown    = 255
)

// The signals of a stop.
const (
	SIGTERM = "SIGTERM"
	SIGKILL = "SIGKILL"
)

// StopSignal returns the container's stop signal, SIGTERM by default.
func StopSignal(req *proto.CreateContainerRequest) string {
	if req.StopSignal == "" {
		return SIGTERM
	}
	return req.StopSignal
}

// ReasonFor returns the reason for a program's own exit with code.
func ReasonFor(code int32) string {
	if code == 0 {
		return ReasonCompleted
	}
	return ReasonError
}
