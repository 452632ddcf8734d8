// Package launch is what the process of a program does before it becomes the program:
// it makes its own view of the machine, gives up every right that the program is not to
// have, and executes it. No code of Go can run between fork and exec, and so this is an
// execution of its own: the shim starts the same binary as `podfall launch`, and that
// ends as the program, with the same number.
//
//	plan.go     what is to be done, as the shim says it
//	launch.go   the order in which it is done
//	mounts.go   the view of the file system
//	handover.go what stands in for it where there is none
//
// # Descriptors
//
// 0, 1 and 2 are the program's own. On Plan stands the plan, and on Report goes what went
// wrong; that closes itself when the program is executed. On MountNamespace is the mount
// namespace to join, if the plan says so. The program gets none of the three.
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

// Plan is what the process is to become.
type Plan struct {
	// Program is the absolute path of what is executed, Args its arguments, its own name
	// first, and Env all of its environment, as NAME=value. An empty Program is no program:
	// the process ends when it has done all else.
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	// Dir is where it starts.
	Dir string `json:"dir"`
	// First means that the process is the first of a PID and a mount namespace of its own.
	First bool `json:"first,omitempty"`
	// Join means that the process is to see the files that another one sees, whose mount
	// namespace is on [DescriptorMountNamespace].
	Join bool `json:"join,omitempty"`
	// Mounts are what is mounted in the mount namespace of a First process. A process that
	// neither is one nor joins one gets them as descriptors, and [MountsVariable] besides.
	Mounts []Mount `json:"mounts,omitempty"`
	// Protected are the paths that no mount may hide, or lie in.
	Protected []string `json:"protected,omitempty"`
	// Root is an empty directory on which the view of the file system can be put together.
	Root string `json:"root,omitempty"`
	// User is who the program runs as; nil keeps the user of the shim.
	User *User `json:"user,omitempty"`
	// Processes is how many processes the program's user may have; 0 sets no limit. It
	// makes sense where nobody else is that user.
	Processes uint64 `json:"processes,omitempty"`
	// Terminal means that descriptor 0 is the program's controlling terminal.
	Terminal bool `json:"terminal,omitempty"`
}

// User is a user of the machine and the only group that it is in.
type User struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Mount shows a file or a directory of the machine at another path.
type Mount struct {
	// Host and Container are absolute paths; Host has no symbolic link in it.
	Host      string `json:"host"`
	Container string `json:"container"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

// File is the plan in memory, ready to be read as [DescriptorPlan].
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
