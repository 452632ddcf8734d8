package shim

import (
	"time"

	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// The files in a container's directory. The runtime writes the first, the shim the
// others.
const (
	fileSpec = "spec.json"
	// fileLock is locked by a shim for as long as it lives: whoever gets the lock
	// knows that there is none.
	fileLock = "lock"
	// fileControl is the socket on which a runtime asks and is told.
	fileControl = "control"
	// fileProcess says which process was started; see Process.
	fileProcess = "process.json"
	// fileExit is the container's last Status. Where it stands nothing is started.
	fileExit = "exit.json"
	dirLog   = "log"
	dirWork  = "work"
	// dirRoot is what a view of the file system is mounted on.
	dirRoot = "root"
)

// Spec is what a shim is to run.
type Spec struct {
	// Program is the absolute path of what is executed.
	Program string `json:"program"`
	// Args are the program's arguments, its own name first.
	Args []string `json:"args"`
	// Env is all of the program's environment, as NAME=value.
	Env []string `json:"env"`
	// Dir is where it starts; empty means a directory of its own.
	Dir string `json:"dir,omitempty"`
	// Init means that a signal without a handler does not reach the program, as for
	// process 1 of a container, except SIGKILL. In a PID namespace the kernel sees to it.
	Init bool `json:"init,omitempty"`
	Stdio
	// Launch is the command line that runs launch.Run.
	Launch []string `json:"launch"`
	// Namespaces are the PID and the mount namespace that the program gets, which the shim has
	// the right to make; nil means the shim's own.
	Namespaces *Namespaces `json:"namespaces,omitempty"`
	// Volumes are handed over to a program that has no Namespaces (launch.Plan).
	Volumes []launch.Mount `json:"volumes,omitempty"`
	// User is who the program runs as; nil means as the shim.
	User   *launch.User `json:"user,omitempty"`
	Limits Limits       `json:"limits,omitzero"`
	// Journal is the file to which the shim appends each Record.
	Journal string `json:"journal,omitempty"`
}

// Stdio is what a program reads and writes.
type Stdio struct {
	// Stdin keeps what the program reads open for those who attach, StdinOnce until the
	// first of them has left.
	Stdin     bool `json:"stdin,omitempty"`
	StdinOnce bool `json:"stdinOnce,omitempty"`
	// TTY gives it a terminal.
	TTY bool `json:"tty,omitempty"`
}

// Namespaces are a program's own.
type Namespaces struct {
	// Mounts are what is mounted there, and Protected the paths that no mount may hide.
	Mounts    []launch.Mount `json:"mounts,omitempty"`
	Protected []string       `json:"protected,omitempty"`
}

// Limits bound what the program and all that descends from it take of the machine.
type Limits struct {
	// Processes is how many there may be, where the user is the program's alone; 0 sets none.
	Processes uint64 `json:"processes,omitempty"`
	// Memory in bytes is what the shim looks after itself, for want of a cgroup that does; 0 sets none.
	Memory int64 `json:"memory,omitempty"`
	// Cgroup is the directory of a cgroup of version 2 that is this container's alone; empty
	// means that it has none.
	Cgroup string `json:"cgroup,omitempty"`
}

// Status is what became of a program. The zero Status has not been started.
type Status struct {
	Running bool `json:"running,omitempty"`
	Exited  bool `json:"exited,omitempty"`
	// PID is the program's process, as the shim sees it, once it was started.
	PID int `json:"pid,omitempty"`
	// StartedAt and FinishedAt are the wall's time; zero until it happened.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Code is the exit code, 128 and the signal's number for one that was killed.
	Code int32 `json:"code,omitempty"`
	// Failed says why it could not be started; empty when it was.
	Failed string `json:"failed,omitempty"`
	// Lost means that nobody knows how it ended.
	Lost bool `json:"lost,omitempty"`
	// OOMKilled means that it was killed because it took more memory than it may.
	OOMKilled bool `json:"oomKilled,omitempty"`
}

// Process identifies a process beyond the reuse of its number: no two have the same
// number and the same start.
type Process struct {
	PID int `json:"pid"`
	// Start is the 22nd field of /proc/PID/stat, in ticks since the machine started.
	Start uint64 `json:"start"`
}

// message goes both ways on the control socket, a JSON document each.
type message struct {
	// ID names a request; its answer has the same. A status has none.
	ID uint64 `json:"id,omitempty"`
	// Status is told at once to whoever connects, and at each change.
	Status *Status `json:"status,omitempty"`
	// Signal asks for a signal by name.
	Signal string `json:"signal,omitempty"`
	// Exec asks for a command to be run beside the program.
	Exec *Command `json:"exec,omitempty"`
	// Stream makes a conversation of the connection; from then on both sides send Frames,
	// as package remote has it, and nothing else.
	Stream *Stream `json:"stream,omitempty"`
	Frame  []byte  `json:"frame,omitempty"`
	// Result answers Exec; Error says why a request was refused.
	Result *Result `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Stream asks for a conversation with a process.
type Stream struct {
	// Command is run for it; nil means the program itself.
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
	// Timeout kills it on the wall; 0 means never.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Result is how a command ended.
type Result struct {
	// Code is as in Status.
	Code           int32  `json:"code"`
	Stdout, Stderr []byte `json:",omitempty"`
	// TimedOut means that it was killed for its timeout.
	TimedOut bool `json:"timedOut,omitempty"`
}
