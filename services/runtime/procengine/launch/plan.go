// Package launch is what a process does before it executes the program: it sets up its own view of
// the machine, drops every right that the program must not have, and executes the program. No Go
// code can run between fork and exec. So the shim starts the same binary as `podfall launch`, which
// then becomes the program with the same PID.
//
//	plan.go     the shim's instructions
//	launch.go   the order of the steps
//	mounts.go   the view of the file system
//	handover.go the substitute for a mount namespace
//
// # Descriptors
//
// 0, 1 and 2 are the program's own. The plan is read from DescriptorPlan. Errors are written to
// DescriptorReport, which closes when the program is executed. DescriptorMountNamespace is the
// mount namespace to join, if the plan says so. The program gets none of the three.
package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The descriptors with which the process is started.
const (
	DescriptorPlan = 3 + iota
	DescriptorReport
	DescriptorMountNamespace
)

// Plan says what the process becomes.
type Plan struct {
	// Program is the absolute path of the program. Args are its arguments, starting with its own
	// name. Env is its whole environment, as NAME=value. If Program is empty, the process exits
	// after all other steps.
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	// Dir is the working directory.
	Dir string `json:"dir"`
	// First means that the process is the first of its own PID and mount namespaces.
	First bool `json:"first,omitempty"`
	// Join means that the process joins the mount namespace on [DescriptorMountNamespace].
	Join bool `json:"join,omitempty"`
	// Mounts are mounted in the mount namespace of a First process. A process that is neither First
	// nor joins a namespace gets them as descriptors, and [MountsVariable].
	Mounts []Mount `json:"mounts,omitempty"`
	// Protected are the paths that no mount may hide or be inside of.
	Protected []string `json:"protected,omitempty"`
	// Root is an empty directory for building the view of the file system.
	Root string `json:"root,omitempty"`
	// User is the program's user; nil keeps the shim's user.
	User *User `json:"user,omitempty"`
	// Processes limits the number of the user's processes; 0 sets no limit. It is useful only if no
	// other program runs as that user.
	Processes uint64 `json:"processes,omitempty"`
	// Terminal means that descriptor 0 is the program's controlling terminal.
	Terminal bool `json:"terminal,omitempty"`
}

// User is a user of the machine and its only group.
type User struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Mount shows a file or directory of the machine at another path.
type Mount struct {
	// Host and Container are absolute paths. Host contains no symbolic link.
	Host      string `json:"host"`
	Container string `json:"container"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// File returns the plan as an in-memory file for [DescriptorPlan].
func (p Plan) File() (*os.File, error) {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("keep a plan: %w", err)
	}
	file := os.NewFile(uintptr(fd), "plan")
	if err := json.NewEncoder(file).Encode(p); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}
