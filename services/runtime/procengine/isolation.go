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

// Isolation is how programs are kept apart from the machine and from each other.
type Isolation struct {
	// Namespaces means that each program is process 1 of a PID namespace of its own, and has
	// mounts of its own.
	Namespaces bool `json:"namespaces"`
	// UserNamespace means that the right to make the others comes from a user namespace, in
	// which the program keeps its user.
	UserNamespace bool `json:"userNamespace,omitempty"`
	// Refused says why there are no Namespaces.
	Refused string `json:"refused,omitempty"`
	// User is who programs run as; nil means as the runtime.
	User *launch.User `json:"user,omitempty"`
}

// String is what a person is told.
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

// The capabilities by which a process in a user namespace of its own makes the others, and
// gives all of them up.
const (
	capSetpcap   = 8
	capSysChroot = 18
	capSysAdmin  = 21
)

// Isolate finds out what this machine lets this user do, by doing it with nothing to run.
// command is the command line that runs launch.Run, and user who programs are to run as.
func Isolate(ctx context.Context, command []string, user *launch.User) Isolation {
	found := Isolation{User: user}
	var refusals []string
	for _, way := range []Isolation{{Namespaces: true, User: user}, {Namespaces: true, UserNamespace: true, User: user}} {
		if way.UserNamespace && os.Geteuid() == 0 {
			continue // its users would be nobody there
		}
		err := try(ctx, command, way)
		if err == nil {
			return way
		}
		refusals = append(refusals, err.Error())
	}
	found.Refused = refusals[len(refusals)-1]
	return found
}

// try launches nothing in a way.
func try(ctx context.Context, command []string, way Isolation) error {
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
	said, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
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
	text, _ := io.ReadAll(said)
	err = child.Wait()
	if text := string(bytes.TrimSpace(text)); text != "" {
		return errors.New(strings.ToLower(text)) //nolint:err113 // another process has said so
	}
	return err
}

// inUserNamespace makes the first process of a user namespace of one, in which its user
// is the same and may make the other namespaces.
func inUserNamespace(attr syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{capSetpcap, capSysChroot, capSysAdmin}
	return &attr
}
