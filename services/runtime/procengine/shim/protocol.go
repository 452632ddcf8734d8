package shim

import "time"

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
	// process 1 of a container, except SIGKILL.
	Init bool `json:"init,omitempty"`
}

// Status is what became of a program. The zero Status has not been started.
type Status struct {
	Running bool `json:"running,omitempty"`
	Exited  bool `json:"exited,omitempty"`
	// StartedAt and FinishedAt are the wall's time; zero until it happened.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Code is the exit code, 128 and the signal's number for one that was killed.
	Code int32 `json:"code,omitempty"`
	// Failed says why it could not be started; empty when it was.
	Failed string `json:"failed,omitempty"`
	// Lost means that nobody knows how it ended.
	Lost bool `json:"lost,omitempty"`
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
	// Result answers Exec; Error says why a request was refused.
	Result *Result `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
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
