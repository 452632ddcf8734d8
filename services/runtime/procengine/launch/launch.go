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

// Run carries out the plan and executes the program, so it does not return on success, unless the
// plan has no program. On failure it reports the error on [DescriptorReport] and returns it.
func Run() error {
	// Per-thread attributes must be set on the thread that executes the program.
	runtime.LockOSThread()
	syscall.Umask(0o022) // as in a container; the shim's own umask is stricter
	report := os.NewFile(DescriptorReport, "report")
	unix.CloseOnExec(DescriptorPlan)
	unix.CloseOnExec(DescriptorReport)
	unix.CloseOnExec(DescriptorMountNamespace)
	err := runPlan()
	if err == nil {
		return nil
	}
	if _, failed := report.WriteString(err.Error()); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

func runPlan() error {
	var plan Plan
	if err := json.NewDecoder(os.NewFile(DescriptorPlan, "plan")).Decode(&plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := plan.enterView(); err != nil {
		return err
	}
	if len(plan.Mounts) > 0 && !plan.First && !plan.Join {
		places, err := plan.passVolumes()
		if err != nil {
			return err
		}
		plan.Env = append(plan.Env, places)
	}
	// Before dropping root: the program's user may not be able to enter a parent of the directory.
	if err := os.Chdir(plan.Dir); err != nil {
		return err
	}
	if err := plan.dropPrivileges(); err != nil {
		return err
	}
	if plan.Program == "" {
		return nil
	}
	return fmt.Errorf("exec: %w", &os.PathError{Op: "execute", Path: plan.Program, Err: syscall.Exec(plan.Program, plan.Args, plan.Env)})
}

// enterView gives the process its view of the file system.
func (p Plan) enterView() error {
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
		return p.buildView()
	}
	return nil
}

// dropPrivileges removes what the program must not have: other users' rights, setuid rights, and
// capabilities, also those in a user namespace.
func (p Plan) dropPrivileges() error {
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
	// The change of user has cleared this.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie the program to its shim: %w", err)
	}
	return p.checkShimAlive()
}

// checkShimAlive fails if the shim died before the process was tied to it. Then nothing reads the
// report.
func (p Plan) checkShimAlive() error {
	fds := []unix.PollFd{{Fd: DescriptorReport}}
	if _, err := unix.Poll(fds, 0); err != nil {
		return err
	}
	if fds[0].Revents&unix.POLLERR != 0 {
		return errors.New("the shim has gone")
	}
	return nil
}

// lastCapability is greater than every capability of the kernel.
const lastCapability = 63

// dropCapabilities ensures that executing a program grants no capability to any user, root
// included. A process without the right to drop capabilities has none to lose.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for capability := range uintptr(lastCapability) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		switch {
		case errors.Is(err, unix.EINVAL): // the kernel has no more capabilities
			return nil
		case errors.Is(err, unix.EPERM):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
