package shim

import (
	"errors"
	"os"
	"strconv"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// isAlive reports whether any process started by the shim is left.
func (s *shim) isAlive() bool { return !s.status.Exited }

// reap handles every process that has exited. Once the program has exited, its remaining
// descendants are killed until there are none.
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
			s.killCgroup()
		default:
			s.finishCommand(pid, status)
		}
	}
}

// killProgram kills a just started program with all its descendants.
func (s *shim) killProgram() {
	s.status.FinishedAt = clock.Clock{}.Now()
	s.killChildren()
	for s.reap(); s.isAlive(); s.reap() {
		<-s.deaths
	}
	s.output.Wait()
}

// killChildren sends SIGKILL to every child. Their children become the shim's when they die, and
// are found after the reaping. No PID can be reused meanwhile, because only this goroutine reaps.
func (s *shim) killChildren() {
	for _, pid := range childProcesses() {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // out of descriptors: the next pass has some again
		}
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // an exited one is a zombie until it is reaped
		_ = unix.Close(pidfd)
	}
}

// childProcesses returns the processes with this process as parent.
func childProcesses() []int {
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
		if status, err := readStat(pid); err == nil && status.PPID == self {
			found = append(found, pid)
		}
	}
	return found
}

// readStat returns the kernel's status of a process.
func readStat(pid int) (procfs.ProcStat, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return process.Stat()
}

// identifyProcess returns a process's PID and start time.
func identifyProcess(pid int) (Process, error) {
	status, err := readStat(pid)
	return Process{PID: pid, Start: status.Starttime}, err
}

// exitCode numbers an exit like a shell and Kubernetes: 128 plus the signal's number for a process
// that a signal has killed (CRI-12).
func exitCode(status unix.WaitStatus) int32 {
	if status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(status.ExitStatus())
}
