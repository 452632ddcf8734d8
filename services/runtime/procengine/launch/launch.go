package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run does what the plan says and does not return, because the process is the program
// then, if there is one. It returns an error, and has reported it, when that could not be done.
func Run() error {
	// What belongs to a thread has to be done on the one that executes the program.
	runtime.LockOSThread()
	syscall.Umask(0o022) // as in a container: the shim's keeps files to itself
	report := os.NewFile(DescriptorReport, "report")
	unix.CloseOnExec(DescriptorPlan)
	unix.CloseOnExec(DescriptorReport)
	unix.CloseOnExec(DescriptorMountNamespace)
	err := run()
	if err == nil {
		return nil
	}
	if _, failed := report.WriteString(err.Error()); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

func run() error {
	var plan Plan
	if err := json.NewDecoder(os.NewFile(DescriptorPlan, "plan")).Decode(&plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := plan.see(); err != nil {
		return err
	}
	if len(plan.Mounts) > 0 && !plan.First && !plan.Join {
		places, err := plan.handOver()
		if err != nil {
			return err
		}
		plan.Env = append(plan.Env, places)
	}
	// As root still: the directory may lie in one that the program's user cannot enter.
	if err := os.Chdir(plan.Dir); err != nil {
		return err
	}
	if err := plan.giveUp(); err != nil {
		return err
	}
	if plan.Program == "" {
		return nil
	}
	return fmt.Errorf("exec: %w", &os.PathError{Op: "execute", Path: plan.Program, Err: syscall.Exec(plan.Program, plan.Args, plan.Env)})
}

// see gives the process its view of the file system.
func (p Plan) see() error {
	switch {
	case p.Join:
		// A thread that shares its working directory with others cannot change the namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("join the mount namespace: %w", err)
		}
		if err := unix.Setns(DescriptorMountNamespace, unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("join the mount namespace: %w", err)
		}
	case p.First:
		return p.mount()
	}
	return nil
}

// giveUp takes from the process what the program is not to have: other users' rights,
// also those of a program with the setuid bit, and capabilities, also those in a user
// namespace.
func (p Plan) giveUp() error {
	if p.Processes > 0 {
		limit := syscall.Rlimit{Cur: p.Processes, Max: p.Processes}
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
			return fmt.Errorf("limit the processes: %w", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop the capabilities: %w", err)
	}
	if user := p.User; user != nil {
		err := syscall.Setgroups([]int{})
		if err == nil {
			err = syscall.Setresgid(user.GID, user.GID, user.GID)
		}
		if err == nil {
			err = syscall.Setresuid(user.UID, user.UID, user.UID)
		}
		if err != nil {
			return fmt.Errorf("become user %d: %w", user.UID, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up setuid: %w", err)
	}
	// A change of user has undone this.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie the program to its shim: %w", err)
	}
	return p.heldStill()
}

// heldStill is an error when the shim has died before the process was tied to it: then
// nobody reads the report.
func (p Plan) heldStill() error {
	fds := []unix.PollFd{{Fd: DescriptorReport}}
	if _, err := unix.Poll(fds, 0); err != nil {
		return err
	}
	if fds[0].Revents&unix.POLLERR != 0 {
		return errors.New("the shim has gone")
	}
	return nil
}

// lastCapability is beyond every capability that a kernel knows.
const lastCapability = 63

// dropCapabilities sees to it that executing a program gives no capability to anybody,
// root included. Where the process has not got the right to say so, it has none to lose.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for capability := range uintptr(lastCapability) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		switch {
		case errors.Is(err, unix.EINVAL): // this kernel knows fewer
			return nil
		case errors.Is(err, unix.EPERM):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
