package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// spawnProgram starts the program in its own session and copies its output to the log.
func (s *shim) spawnProgram() error {
	files, err := openStdio(s.spec.Stdin, s.spec.TTY, s.spec.User)
	if err != nil {
		return err
	}
	limits := s.spec.Limits
	plan := launch.Plan{
		Program: s.spec.Program, Args: s.spec.Args, Env: s.spec.Env, Dir: s.spec.Dir,
		Mounts: s.spec.Volumes, Root: s.path(dirRoot), User: s.spec.User, Processes: limits.Processes, Terminal: s.spec.TTY,
	}
	if own := s.spec.Namespaces; own != nil {
		plan.First, plan.Mounts, plan.Protected = true, own.Mounts, own.Protected
	}
	if s.main, err = s.launchProcess(plan, files); err != nil {
		return err
	}
	s.console.attachStdio(files)
	for channel, from := range files.output {
		s.output.Go(func() { s.console.copyOutput(channel, from) })
	}
	return nil
}

// commandPlan returns the plan of a command that runs beside the program in the same mount
// namespace.
func (s *shim) commandPlan(program string, args []string) launch.Plan {
	return launch.Plan{
		Program: program, Args: args, Env: s.spec.Env, Dir: s.spec.Dir, Join: s.spec.Namespaces != nil,
		Mounts: s.spec.Volumes, User: s.spec.User, Processes: s.spec.Limits.Processes,
	}
}

// launchTimeout bounds how long a process may take to execute its program, on a machine that may be
// stalled.
const launchTimeout = time.Minute

// launchProcess starts a process that executes the program of a plan and dies with the shim. It
// waits until the program is executed. The child's ends of files are always closed, ours only on
// failure.
func (s *shim) launchProcess(plan launch.Plan, files stdio) (_ *os.Process, err error) {
	defer func() {
		files.closeTheirs()
		if err != nil {
			files.closeOurs()
		}
	}()
	written, err := plan.File()
	if err != nil {
		return nil, err
	}
	defer written.Close()
	output, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer output.Close()
	process, err := s.startProcess(plan, append(files.theirs, written, report))
	if err := errors.Join(err, report.Close()); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	_ = output.SetReadDeadline(clock.Clock{}.Now().Add(launchTimeout))
	text, err := io.ReadAll(output)
	if err == nil && len(text) > 0 {
		err = errors.New(string(text)) //nolint:err113 // the error comes from another process
	}
	if err == nil {
		return process, nil
	}
	_ = process.Kill() // most have exited already
	_, _ = process.Wait()
	return nil, err
}

// startProcess starts the process in the namespaces of its plan.
func (s *shim) startProcess(plan launch.Plan, files []*os.File) (*os.Process, error) {
	attr := syscall.SysProcAttr{Setsid: true, Setctty: plan.Terminal} // package launch ties it to the shim
	if s.spec.Limits.Cgroup != "" {
		group, err := os.Open(s.spec.Limits.Cgroup)
		if err != nil {
			return nil, err
		}
		defer group.Close()
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd())
	}
	if plan.Join {
		if s.mountNamespace == nil {
			return nil, errEnded
		}
		files = append(files, s.mountNamespace)
	}
	if plan.First {
		attr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	process, err := os.StartProcess(s.spec.Launch[0], s.spec.Launch, &os.ProcAttr{Dir: "/", Files: files, Sys: &attr})
	if err != nil {
		return nil, err
	}
	if plan.First {
		err = s.keepNamespaces(process.Pid)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an exited process has no namespaces
		_ = process.Kill()
		_, _ = process.Wait()
		return nil, err
	}
	return process, nil
}

// keepNamespaces keeps the program's mount namespace, and makes every further child of this thread
// a member of its PID namespace. The thread is the shim's own (see Run), and the process has not
// been reaped.
func (s *shim) keepNamespaces(pid int) error {
	view, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return err
	}
	s.mountNamespace = view
	pids, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return err
	}
	defer pids.Close()
	if err := unix.Setns(int(pids.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter the PID namespace: %w", err)
	}
	return nil
}
