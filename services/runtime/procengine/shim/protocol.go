package shim

import (
	"time"

	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// The files in a container's directory. The runtime writes the first, the shim the
// others.
const (
	fileSpec = "spec.json"
	// fileLock is locked by a running shim. A process that gets the lock knows that there is no
	// shim.
	fileLock = "lock"
	// fileControl is the socket for requests and statuses.
	fileControl = "control"
	// fileProcess identifies the started process; see Process.
	fileProcess = "process.json"
	// fileExit is the container's last Status. If it exists, nothing is started.
	fileExit = "exit.json"
	dirLog   = "log"
	dirWork  = "work"
	// dirRoot is the mount point for building a view of the file system.
	dirRoot = "root"
)

// Spec says what a shim runs.
type Spec struct {
	// Program is the absolute path of the program.
	Program string `json:"program"`
	// Args are the program's arguments, starting with its own name.
	Args []string `json:"args"`
	// Env is the program's whole environment, as NAME=value.
	Env []string `json:"env"`
	// Dir is the working directory; empty means a new directory.
	Dir string `json:"dir,omitempty"`
	// Init means that signals without a handler do not reach the program, except SIGKILL, as for
	// process 1 of a container. In a PID namespace the kernel does that.
	Init bool `json:"init,omitempty"`
	Stdio
	// Launch is the command line that runs launch.Run.
	Launch []string `json:"launch"`
	// Namespaces describes the program's own PID and mount namespaces, which the shim may create;
	// nil means the shim's namespaces.
	Namespaces *Namespaces `json:"namespaces,omitempty"`
	// Volumes are passed to a program without Namespaces (launch.Plan).
	Volumes []launch.Mount `json:"volumes,omitempty"`
	// User is the program's user; nil means the shim's user.
	User   *launch.User `json:"user,omitempty"`
	Limits Limits       `json:"limits,omitzero"`
	// Journal is the file to which the shim appends each Record.
	Journal string `json:"journal,omitempty"`
}

// Stdio describes a program's input and output.
type Stdio struct {
	// Stdin keeps the program's input open for attaching clients. StdinOnce closes it when the
	// first client has left.
	Stdin     bool `json:"stdin,omitempty"`
	StdinOnce bool `json:"stdinOnce,omitempty"`
	// TTY gives the program a terminal.
	TTY bool `json:"tty,omitempty"`
}

// Namespaces describes a program's own namespaces.
type Namespaces struct {
	// Mounts are mounted there. Protected are the paths that no mount may hide.
	Mounts    []launch.Mount `json:"mounts,omitempty"`
	Protected []string       `json:"protected,omitempty"`
}

// Limits bound the resources of the program and all its descendants.
type Limits struct {
	// Processes is the maximum number of processes, if no other program runs as that user; 0 sets
	// none.
	Processes uint64 `json:"processes,omitempty"`
	// Memory in bytes is enforced by the shim, if there is no cgroup that does; 0 sets none.
	Memory int64 `json:"memory,omitempty"`
	// Cgroup is the directory of this container's cgroup of version 2; empty if it has none.
	Cgroup string `json:"cgroup,omitempty"`
}

// Status is the state of a program. The zero Status has not been started.
type Status struct {
	Running bool `json:"running,omitempty"`
	Exited  bool `json:"exited,omitempty"`
	// PID is the program's process id as seen by the shim, once started.
	PID int `json:"pid,omitempty"`
	// StartedAt and FinishedAt are wall times; zero before the event.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Code is the exit code, or 128 plus the signal's number if a signal killed the program.
	Code int32 `json:"code,omitempty"`
	// Failed says why the start failed; empty if it succeeded.
	Failed string `json:"failed,omitempty"`
	// Lost means that it is unknown how the program ended.
	Lost bool `json:"lost,omitempty"`
	// OOMKilled means that the program was killed for exceeding its memory limit.
	OOMKilled bool `json:"oomKilled,omitempty"`
}

// Process identifies a process even if its PID is reused: no two processes have the same PID and
// start time.
type Process struct {
	PID int `json:"pid"`
	// Start is the 22nd field of /proc/PID/stat, in clock ticks since boot.
	Start uint64 `json:"start"`
}

// message is sent in both directions on the control socket, as a JSON document.
type message struct {
	// ID numbers a request; its answer has the same ID. Statuses have none.
	ID uint64 `json:"id,omitempty"`
	// Status is sent on connecting and at each change.
	Status *Status `json:"status,omitempty"`
	// Signal asks for a signal by name.
	Signal string `json:"signal,omitempty"`
	// Exec asks to run a command beside the program.
	Exec *Command `json:"exec,omitempty"`
	// Stream turns the connection into a conversation. From then on both sides send only Frames, as
	// package remote defines them.
	Stream *Stream `json:"stream,omitempty"`
	Frame  []byte  `json:"frame,omitempty"`
	// Result answers Exec; Error says why a request failed.
	Result *Result `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Stream asks for a conversation with a process.
type Stream struct {
	// Command is run for the conversation; nil means the program itself.
	Command *Command `json:"command,omitempty"`
	Stdin   bool     `json:"stdin,omitempty"`
	Stdout  bool     `json:"stdout,omitempty"`
	Stderr  bool     `json:"stderr,omitempty"`
	// TTY gives the command a terminal.
	TTY bool `json:"tty,omitempty"`
}

// Command runs in the environment and the directory of the program.
type Command struct {
	Program string   `json:"program"`
	Args    []string `json:"args"`
	// Timeout is wall time, after which the command is killed; 0 means none.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Result describes how a command ended.
type Result struct {
	// Code is as in Status.
	Code           int32  `json:"code"`
	Stdout, Stderr []byte `json:",omitempty"`
	// TimedOut means that the command was killed after its timeout.
	TimedOut bool `json:"timedOut,omitempty"`
}
