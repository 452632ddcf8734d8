package shim

import (
	"errors"
	"os"
	"strconv"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// alive reports whether anything that the shim started is left.
func (s *shim) alive() bool { return !s.status.Exited }

// reap takes note of every process that has ended. Once the program has, what is left
// of its descendants is killed, until there is none.
func (s *shim) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			s.status.Running, s.status.Exited = false, true
			return
		case err != nil || pid == 0:
			if !s.status.FinishedAt.IsZero() {
				s.killChildren()
			}
			return
		case pid == s.main.Pid:
			s.status.Code, s.status.FinishedAt = exitCode(status), clock.Clock{}.Now()
			s.endCgroup()
		default:
			s.commandEnded(pid, status)
		}
	}
}

// kill ends a program that was started and is not to be, with all its descendants.
func (s *shim) kill() {
	s.status.FinishedAt = clock.Clock{}.Now()
	s.killChildren()
	for s.reap(); s.alive(); s.reap() {
		<-s.deaths
	}
	s.output.Wait()
}

// killChildren sends SIGKILL to every child. Theirs become ours when they die, and are
// found when that is reaped. None of them is a stranger: only this goroutine reaps.
func (s *shim) killChildren() {
	for _, pid := range children() {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // out of descriptors: the next pass has some
		}
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // one that has exited since waits to be reaped
		_ = unix.Close(pidfd)
	}
}

// children are the processes whose parent is this one.
func children() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if said, err := stat(pid); err == nil && said.PPID == self {
			found = append(found, pid)
		}
	}
	return found
}

// stat is what the kernel says of a process.
func stat(pid int) (procfs.ProcStat, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return process.Stat()
}

// identify is a process's number and start.
func identify(pid int) (Process, error) {
	said, err := stat(pid)
	return Process{PID: pid, Start: said.Starttime}, err
}

// exitCode is how a shell and Kubernetes number an end: 128 and the signal's number for
// a process that a signal has killed (CRI-12).
func exitCode(status unix.WaitStatus) int32 {
	if status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(status.ExitStatus())
}
