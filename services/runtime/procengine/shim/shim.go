// Package shim is the process between a runtime and one real program. It is the program's parent,
// so that a runtime can be killed and restarted while the program runs: the shim holds its output,
// reaps all its descendants, and records how it ended.
//
//	Run       starts what spec.json says, until no process is left
//	Dial      connects a runtime to a running shim
//	ReadExit  returns the exit once no shim runs and none can start
//
// # Order
//
// A shim locks its directory before it starts anything and for as long as it runs. It writes
// process.json before it reports that the program runs, and exit.json, synced to disk, before it
// reports the exit. It exits when the program has no descendants left: it kills remaining
// descendants, as the kernel does with a PID namespace when its first process ends.
//
// # Signals
//
// Only the shim signals the program, and only the shim reaps it. A process keeps its PID until it
// is reaped, so no signal ever reaches an unrelated process.
//
// # One goroutine
//
// Everything about processes happens in Run's own goroutine, on one thread: the program dies with
// the thread that started it (PR_SET_PDEATHSIG), and so with the shim.
package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/runtime/procengine/logfile"
)

// ErrClaimed means that the directory already has a shim, or can no longer have one.
var ErrClaimed = errors.New("this container has a shim already, or has ended")

// Run runs a shim. It returns when the program and all its descendants are gone and the exit is on
// disk. A program that cannot be started is an exit too. ctx does not stop the program, because
// programs outlive the runtime.
//
// listening is called once a runtime may connect.
func Run(ctx context.Context, dir string, listening func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	defer root.Close()
	lock, err := lockDir(root)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	defer lock.Close()
	// A duplicate is held until the process exits, so that the next holder of the lock finds no trace of it.
	if _, err := unix.FcntlInt(lock.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	if _, err := root.Stat(fileExit); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("shim: %w", errors.Join(ErrClaimed, err))
	}
	spec, err := readJSON[Spec](root, fileSpec)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("shim: become the reaper: %w", err)
	}
	// The program inherits no descriptor of this process.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	if err := setLimits(); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	// Received and dropped: with SIG_IGN the program would inherit the disposition.
	others := make(chan os.Signal, 1)
	signal.Notify(others, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(others)
	s := &shim{spec: spec, root: root, requests: make(chan request), deaths: make(chan os.Signal, 1)}
	signal.Notify(s.deaths, syscall.SIGCHLD)
	defer signal.Stop(s.deaths)
	return s.run(ctx, listening)
}

// maxOpenFiles is how many files a program may have open.
const maxOpenFiles = 1 << 16

// setLimits sets the resource limits that the program inherits: no core file, because it would
// contain secrets, and at most maxOpenFiles descriptors.
func setLimits() error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Max = min(files.Max, maxOpenFiles)
	files.Cur = min(files.Cur, files.Max)
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files),
		syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}),
	)
}

// lockDir locks a container's directory, or returns ErrClaimed.
func lockDir(root *os.Root) (*os.File, error) {
	lock, err := root.OpenFile(fileLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(ErrClaimed, lock.Close())
	}
	return lock, nil
}

// shim runs one program and its descendants.
type shim struct {
	spec Spec
	root *os.Root
	// console is the program's input and output.
	console console
	// mountNamespace is the program's mount namespace; nil if it has none of its own.
	mountNamespace *os.File

	requests chan request
	deaths   chan os.Signal
	main     *os.Process
	status   Status
	// commands are those that run beside the program, by PID.
	commands map[int]*command
	signals  sentSignals

	output sync.WaitGroup // waits for goroutines that copy output
	peers  peerSet
}

// run handles requests and reaps processes until all have ended.
func (s *shim) run(ctx context.Context, listening func()) error {
	listener, err := listenControl(s.root)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	listening()
	s.commands, s.peers.conns, s.peers.conversing = map[int]*command{}, map[*peer]struct{}{}, map[*peer]struct{}{}
	s.signals = sentSignals{sent: map[int]bool{}, journal: journal{path: s.spec.Journal, container: filepath.Base(s.root.Name())}}
	var serving sync.WaitGroup
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer serving.Wait()
	defer end()
	defer listener.Close()
	if err := s.startProgram(); err != nil {
		s.status = Status{Exited: true, Failed: err.Error(), Code: 128, FinishedAt: clock.Clock{}.Now()}
		return s.recordExit()
	}
	serving.Go(func() { s.serve(ctx, listener) })
	s.peers.broadcast(s.status)
	memory := s.memoryTicker()
	defer memory.Stop()
	for s.isAlive() {
		select {
		case <-s.deaths:
			s.reap()
		case asked := <-s.requests:
			s.handleRequest(asked)
		case <-memory.C:
			s.checkMemory()
		}
	}
	s.peers.limitConversations()
	s.output.Wait()
	s.console.finish()
	return s.recordExit()
}

// startProgram opens the log and starts the program.
func (s *shim) startProgram() error {
	logs, err := s.makeDir(dirLog)
	if err != nil {
		return err
	}
	if s.console.log, err = logfile.Open(logs, logfile.Limits{}, clock.Clock{}.Now); err != nil {
		return err
	}
	if s.spec.Dir == "" {
		if err := s.makeWorkDir(); err != nil {
			return err
		}
	}
	if _, err := s.makeDir(dirRoot); err != nil {
		return err
	}
	if err := s.spawnProgram(); err != nil {
		return err
	}
	s.status = Status{Running: true, PID: s.main.Pid, StartedAt: clock.Clock{}.Now()}
	started, err := identifyProcess(s.main.Pid)
	if err == nil {
		err = writeJSON(s.root, fileProcess, started)
	}
	if err != nil { // without this file it could not be found again, so it must not run
		s.killProgram()
		return err
	}
	return nil
}

// makeWorkDir creates a working directory that the program may write to.
func (s *shim) makeWorkDir() error {
	work, err := s.makeDir(dirWork)
	if err != nil {
		return err
	}
	defer work.Close()
	s.spec.Dir = s.path(dirWork)
	if user := s.spec.User; user != nil {
		return work.Chown(".", user.UID, user.GID)
	}
	return nil
}

func (s *shim) path(name string) string { return filepath.Join(s.root.Name(), name) }

func (s *shim) makeDir(name string) (*os.Root, error) {
	if err := s.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return s.root.OpenRoot(name)
}

// recordExit writes the exit to disk, then sends it to all peers.
func (s *shim) recordExit() error {
	s.removeCgroup()
	if err := writeJSON(s.root, fileExit, s.status); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	s.peers.broadcast(s.status)
	return nil
}

func readJSON[T any](root *os.Root, name string) (value T, err error) {
	data, err := root.ReadFile(name)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return value, fmt.Errorf("%s: %w", name, err)
	}
	return value, nil
}

// writeJSON writes a file atomically and durably.
func writeJSON(root *os.Root, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	file, err := root.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return root.Rename(name+".new", name)
}

// listenControl creates the control socket. It is named through a descriptor of its directory,
// because a socket's path is limited to 107 bytes.
func listenControl(root *os.Root) (net.Listener, error) {
	if err := root.Remove(fileControl); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	return net.Listen("unix", socketPath(dir))
}

func socketPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), fileControl)
}
