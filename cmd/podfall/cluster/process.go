package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// readyFD is the descriptor on which a child reports that it is ready.
const readyFD = 3

// Record identifies a running process even if its PID is reused.
type Record struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Start is the kernel's start time, in clock ticks since the machine's boot.
	Start uint64 `json:"start"`
	// Ready is set once the process has reported that it is ready.
	Ready bool `json:"ready,omitempty"`
}

// The states in which the kernel has a process that matter here.
const (
	// stateEnded is the state of a process that waits to be reaped.
	stateEnded = "Z"
	// stateStopped is the state of a process that SIGSTOP has stopped.
	stateStopped = "T"
)

// processStart returns a process's start time and kernel state.
func processStart(pid int) (start uint64, state string, err error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, "", err
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, "", fmt.Errorf("pid %d: %w", pid, err)
	}
	return stat.Starttime, stat.State, nil
}

// Alive reports whether the recorded process still runs.
func (r Record) Alive() bool {
	start, state, err := processStart(r.PID)
	return err == nil && state != stateEnded && start == r.Start
}

// paused reports whether the recorded process is stopped.
func (r Record) paused() bool {
	start, state, err := processStart(r.PID)
	return err == nil && state == stateStopped && start == r.Start
}

// Signal signals the recorded process; os.ErrProcessDone if it is gone.
func (r Record) Signal(signal os.Signal) error {
	// The handle is taken first and the start time compared afterwards. If they agree, the
	// handle refers to the recorded process, even if its PID is reused later.
	process, err := os.FindProcess(r.PID)
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	if !r.Alive() {
		return os.ErrProcessDone
	}
	return process.Signal(signal)
}

func (l Layout) recordFile(name string) string {
	return filepath.Join(l.runDir(), strings.ReplaceAll(name, "/", "-")+".pid.json")
}

// Records returns the recorded processes, running or not.
func (l Layout) Records() ([]Record, error) {
	paths, err := filepath.Glob(filepath.Join(l.runDir(), "*.pid.json"))
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var record Record
		if err := json.Unmarshal(data, &record); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		records = append(records, record)
	}
	return records, nil
}

// record records a started child, even if it has exited already.
func (l Layout) record(name string, pid int) (Record, error) {
	start, _, err := processStart(pid)
	if err != nil {
		return Record{}, err
	}
	record := Record{Name: name, PID: pid, Start: start}
	return record, l.writeRecord(record)
}

func (l Layout) writeRecord(record Record) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return WriteFile(l.recordFile(record.Name), data)
}

// child is a process that the supervisor started.
type child struct {
	member  Member
	record  Record
	command *exec.Cmd
	// ended is closed when the process has exited.
	ended chan struct{}
}

// launch starts podfall again with its output in the named log, and returns the pipe for the ready
// line. The child leads its own session, so that Ctrl-C at the terminal does not reach it.
func (l Layout) launch(name string, arguments, environment []string) (*exec.Cmd, *os.File, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(l.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	ready, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer writer.Close()
	command := exec.Command(executable, append(arguments, "--ready-fd", strconv.Itoa(readyFD))...)
	command.Env = append(environment, os.Environ()...) // the user's environment comes last and takes precedence
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{writer}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, nil, errors.Join(err, ready.Close())
	}
	return command, ready, nil
}

// start starts podfall as the member.
func (l Layout) start(member Member, at Addresses) (*child, *os.File, error) {
	command, ready, err := l.launch(member.Name, member.Arguments(at), member.tuning())
	if err != nil {
		return nil, nil, err
	}
	record, err := l.record(member.Name, command.Process.Pid)
	if err != nil {
		return nil, nil, errors.Join(err, command.Process.Kill(), command.Wait(), ready.Close())
	}
	return &child{member: member, record: record, command: command, ended: make(chan struct{})}, ready, nil
}

// Codes of waitid(2) for a stopped and a continued child.
const (
	childStopped   = 5
	childContinued = 6
)

// reap waits for the child's exit, and calls paused and resumed whenever the child is stopped and
// continued by any process.
func (c *child) reap(paused, resumed func()) {
	const changes = unix.WSTOPPED | unix.WCONTINUED
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.command.Process.Pid, &info, unix.WEXITED|changes|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != childStopped && info.Code != childContinued {
			break // it has exited
		}
		if info.Code == childStopped {
			paused()
		} else {
			resumed()
		}
		_ = unix.Waitid(unix.P_PID, c.command.Process.Pid, &info, changes|unix.WNOHANG, nil) // consume the reported change
	}
	_ = c.command.Wait() // ProcessState has the result
	close(c.ended)
}

// isRunning reports whether the child runs. A child that was just killed does not, and has been
// reaped when isRunning returns.
func (c *child) isRunning() bool {
	select {
	case <-c.ended:
		return false
	default:
	}
	if c.record.Alive() {
		return true
	}
	<-c.ended
	return false
}

// stop sends SIGTERM, and SIGKILL when timeout fires.
func (c *child) stop(patience <-chan time.Time) {
	if !c.isRunning() {
		return
	}
	_ = c.command.Process.Signal(syscall.SIGTERM)
	_ = c.command.Process.Signal(syscall.SIGCONT) // a paused process handles the signal after SIGCONT
	select {
	case <-c.ended:
	case <-patience:
		_ = c.command.Process.Kill()
		<-c.ended
	}
}

func (l Layout) logFile(name string) string {
	return filepath.Join(l.logDir(), strings.ReplaceAll(name, "/", "-")+".log")
}

// lastLogLines returns the last lines of a process's log, to explain its exit.
func (l Layout) lastLogLines(name string, count int) []string {
	file, err := os.Open(l.logFile(name))
	if err != nil {
		return nil
	}
	defer file.Close()
	return lastLines(file, count)
}

// lastLines returns the last lines of a text, complete or not, of any length.
func lastLines(text io.Reader, count int) []string {
	var lines []string
	for in := bufio.NewReader(text); ; {
		line, err := in.ReadString('\n')
		if line != "" {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
			lines = lines[max(len(lines)-count, 0):]
		}
		if err != nil {
			return lines
		}
	}
}

// startTimeout bounds how long a process may take to become ready.
const startTimeout = time.Minute

// awaitReady waits until the child has written the ready line.
func awaitReady(ctx context.Context, member Member, ready *os.File) error {
	ctx, cancel := clock.Clock{}.Timeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(ready).ReadString('\n')
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s is not ready after %v", member.Name, startTimeout)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%s ended before it was ready", member.Name)
	case line != LineReady+"\n":
		return fmt.Errorf("%s said %q instead of ready", member.Name, line)
	}
	return nil
}
