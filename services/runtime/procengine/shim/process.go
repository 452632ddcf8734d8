package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

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
		if fields, err := stat(pid); err == nil && fields[3] == strconv.Itoa(self) {
			found = append(found, pid)
		}
	}
	return found
}

// stat is /proc/PID/stat, a field each, numbered as in proc(5) from 0.
func stat(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return statFields(data)
}

// statFields takes a stat apart: the name of the program may hold spaces and brackets.
func statFields(data []byte) ([]string, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return nil, io.ErrUnexpectedEOF
	}
	fields := append([]string{strings.TrimSpace(string(data[:open])), string(data[open+1 : end])}, strings.Fields(string(data[end+1:]))...)
	if len(fields) < 22 {
		return nil, io.ErrUnexpectedEOF
	}
	return fields, nil
}

// identify is a process's number and start.
func identify(pid int) (Process, error) {
	fields, err := stat(pid)
	if err != nil {
		return Process{}, err
	}
	start, err := strconv.ParseUint(fields[21], 10, 64)
	return Process{PID: pid, Start: start}, err
}

// exitCode is how a shell and Kubernetes number an end: 128 and the signal's number for
// a process that a signal has killed (CRI-12).
func exitCode(status unix.WaitStatus) int32 {
	if status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(status.ExitStatus())
}
