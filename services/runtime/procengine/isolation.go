package procengine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// Isolation describes how programs are isolated from the machine and from each other.
type Isolation struct {
	// Namespaces means that each program is process 1 of its own PID namespace and has its own
	// mounts.
	Namespaces bool `json:"namespaces"`
	// UserNamespace means that a user namespace gives the right to create the other namespaces. The
	// program keeps its user in it.
	UserNamespace bool `json:"userNamespace,omitempty"`
	// Refused says why there are no Namespaces.
	Refused string `json:"refused,omitempty"`
	// User is the user of programs; nil means the runtime's user.
	User *launch.User `json:"user,omitempty"`
}

// String describes the isolation for users.
func (i Isolation) String() string {
	user := fmt.Sprintf("as user %d", os.Geteuid())
	if i.User != nil {
		user = fmt.Sprintf("as user %d", i.User.UID)
	}
	switch {
	case i.UserNamespace:
		return user + ", in user, PID and mount namespaces of their own"
	case i.Namespaces:
		return user + ", in PID and mount namespaces of their own"
	}
	return user + ", beside the machine's other processes (no namespaces: " + i.Refused + ")"
}

// The capabilities that a process in its own user namespace needs to create the other
// namespaces. The process then drops them all.
const (
	capSetpcap   = 8
	capSysChroot = 18
	capSysAdmin  = 21
)

// DetectIsolation finds the strongest isolation that the machine permits, by launching an empty
// plan. command is the command line that runs launch.Run. user is the user for programs.
func DetectIsolation(ctx context.Context, command []string, user *launch.User) Isolation {
	found := Isolation{User: user}
	var refusals []string
	for _, way := range []Isolation{{Namespaces: true, User: user}, {Namespaces: true, UserNamespace: true, User: user}} {
		if way.UserNamespace && os.Geteuid() == 0 {
			continue // root's users would map to nobody there
		}
		err := tryIsolation(ctx, command, way)
		if err == nil {
			return way
		}
		refusals = append(refusals, err.Error())
	}
	found.Refused = refusals[len(refusals)-1]
	return found
}

// tryIsolation launches an empty plan with one isolation.
func tryIsolation(ctx context.Context, command []string, way Isolation) error {
	root, err := os.MkdirTemp("", "podfall-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	plan, err := launch.Plan{First: true, Dir: "/", Root: root, User: way.User}.File()
	if err != nil {
		return err
	}
	defer plan.Close()
	output, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.ExtraFiles = []*os.File{plan, report}
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if way.UserNamespace {
		child.SysProcAttr = inUserNamespace(*child.SysProcAttr)
	}
	err = child.Start()
	if err := errors.Join(err, report.Close()); err != nil {
		return err
	}
	text, _ := io.ReadAll(output)
	err = child.Wait()
	if text := string(bytes.TrimSpace(text)); text != "" {
		return errors.New(strings.ToLower(text)) //nolint:err113 // the error comes from another process
	}
	return err
}

// inUserNamespace adds a new user namespace to attr. The process keeps its user and may create the
// other namespaces.
func inUserNamespace(attr syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{capSetpcap, capSysChroot, capSysAdmin}
	return &attr
}
