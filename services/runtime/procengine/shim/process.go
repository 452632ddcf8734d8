package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// start starts the program in a session of its own, with nothing to read and its output
// in the log.
func (s *shim) start() error {
	out, err := newOutput()
	if err != nil {
		return err
	}
	s.main, err = s.spawn(s.spec.Program, s.spec.Args, out)
	if err != nil {
		return err
	}
	s.output.Go(func() { s.log.Copy("stdout", out.stdout) })
	s.output.Go(func() { s.log.Copy("stderr", out.stderr) })
	return nil
}

// spawn starts a process that dies with the shim. The write ends of out are closed in
// any case, its read ends when it could not be started.
func (s *shim) spawn(program string, args []string, out output) (*os.Process, error) {
	defer out.closeWriters()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	process, err := os.StartProcess(program, args, &os.ProcAttr{
		Dir: s.work, Env: s.spec.Env, Files: []*os.File{null, out.outWriter, out.errWriter},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		out.closeReaders()
		return nil, fmt.Errorf("exec: %w", err)
	}
	return process, nil
}

// output are the two pipes of a process.
type output struct{ stdout, stderr, outWriter, errWriter *os.File }

func newOutput() (out output, err error) {
	if out.stdout, out.outWriter, err = os.Pipe(); err != nil {
		return out, err
	}
	if out.stderr, out.errWriter, err = os.Pipe(); err != nil {
		return out, errors.Join(err, out.stdout.Close(), out.outWriter.Close())
	}
	return out, nil
}

func (o output) closeWriters() { _, _ = o.outWriter.Close(), o.errWriter.Close() }
func (o output) closeReaders() { _, _ = o.stdout.Close(), o.stderr.Close() }

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
		_ = unix.Kill(pid, unix.SIGKILL) // one that has exited since waits to be reaped
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

// stat is /proc/PID/stat, a field each, numbered as in proc(5) from 0: the name of the
// program may hold spaces and brackets.
func stat(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return nil, io.ErrUnexpectedEOF
	}
	fields := append([]string{strconv.Itoa(pid), string(data[open+1 : end])}, strings.Fields(string(data[end+1:]))...)
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
