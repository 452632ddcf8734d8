// Package engine says what a runtime asks of whatever runs its containers' processes.
// There are scripted ones (simengine) and real ones; enginetest is the suite that each
// must pass, and what this comment means in practice.
//
// The runtime owns the containers: their names, sandboxes, records on disk and the
// order in which a stop proceeds. An engine owns processes: it starts them, signals
// them, and reports what becomes of them.
//
// # Order
//
// A container is loaded once in an engine's life, before anything else is asked of it.
// What an engine reports of one container only moves forward: CREATED, RUNNING, EXITED,
// where CREATED to EXITED is a start that failed. Nothing changes before it was asked
// for: no start without Start, and no end by a signal that was not sent. The runtime has
// made every Start and Signal durable before it asks for it.
//
// # Blocking
//
// No method but Run, Exec, Stream and Reach waits for a process. Run reports from one goroutine, and
// holds no lock while it does: a report may call the engine.
//
// # Restart
//
// A runtime that starts again loads its containers with the events that it has on
// record. An engine whose processes survived goes on with them; one that cannot find
// a process again reports it EXITED, 255, Unknown (CRI-11).
package engine

import (
	"context"
	"time"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

// Engine runs processes of containers. Its methods may be called concurrently.
type Engine interface {
	// Run does the engine's work until ctx ends, and then returns nil. It reports every
	// change of a container's status, in order, and nothing about a removed one after
	// Remove has returned and the reports that were under way have.
	Run(ctx context.Context, report Report) error
	// Load takes on a container, and returns its status now. It refuses one that it
	// cannot run, such as one with a script that does not parse; the error says why.
	Load(ctx context.Context, c Container) (Status, error)
	// Start begins to run the process of a container that was loaded, as of the instant
	// at. That it runs, or could not be started, is reported.
	Start(ctx context.Context, id string, at time.Time) error
	// Signal sends the process a signal by its name, such as SIGTERM, as of the instant
	// at, and returns when it has been sent. It is no error when the process has exited, or the container been removed.
	// What comes of it is reported.
	Signal(ctx context.Context, id, signal string, at time.Time) error
	// Remove forgets the container, its process and its logs. It may be called again.
	Remove(ctx context.Context, id string)
	Inside
}

// Inside is what can be asked of a container that runs; its logs also later.
type Inside interface {
	// Exec runs a command inside the container, and waits for it.
	Exec(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	// Stream lets client talk with a command inside the container, or with the container's
	// own program, until either side ends it. A command ends when its client has left. It
	// fails when client has not been told how it ended; a *proto.RuntimeError with
	// CodeUnimplemented says what the container is that it has no process.
	Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error
	// Reach asks the container over its network, and waits for the answer.
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
	// Logs is what the container has written.
	Logs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error)
}

// Report is told of a container's new status.
type Report func(id string, status Status)

// Container is what an engine is given of a container.
type Container struct {
	ID string
	// Handler names the engine, as [proto.Sandbox.RuntimeHandler] does.
	Handler string
	Request *proto.CreateContainerRequest
	Events  Events
}

// Events are what has been done to a container, and when; zero times are things that
// have not. They never change once set.
type Events struct {
	// Start is when its start was asked for.
	Start time.Time
	// Stop is when the stop signal was sent.
	Stop time.Time
	// Kill is when SIGKILL was first sent.
	Kill time.Time
}

// Status is what an engine says of a container. The zero Status is CREATED.
type Status struct {
	State proto.ContainerState
	// PID is its process's on the machine while it is RUNNING; 0 for an engine that has no
	// processes.
	PID int
	// StartedAt is when it began to run; zero if it never did.
	StartedAt time.Time
	// FinishedAt is when it exited; zero until then.
	FinishedAt time.Time
	// ExitCode is 0 to 255.
	ExitCode int32
	// Reason is set once EXITED; see the constants.
	Reason string
	// Message is what went wrong, in words; often empty.
	Message string
	// Unreachable means that a stop hangs: no signal can be sent.
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

// StopSignal is the signal with which the container wants to be stopped.
func StopSignal(req *proto.CreateContainerRequest) string {
	if req.StopSignal == "" {
		return SIGTERM
	}
	return req.StopSignal
}

// ReasonFor is the reason of a program's own exit with code.
func ReasonFor(code int32) string {
	if code == 0 {
		return ReasonCompleted
	}
	return ReasonError
}
