// Package shim is the process between a runtime and one real program. It is the
// program's parent, so that a runtime can be killed and started again while the program
// goes on: the shim holds its output, reaps everything that descends from it, and keeps
// how it ended.
//
//	Run       start what spec.json says, until nothing of it is left
//	Dial      a runtime's connection to a shim that runs
//	End       a runtime's way to learn that no shim runs, and none will
//
// # Order
//
// A shim locks its directory before it starts anything and for as long as it lives. It
// writes process.json before it tells that the program runs, and exit.json, synced to
// disk, before it tells that it has ended. It ends when nothing that descends from the
// program is left: what the program leaves behind is killed, as the kernel does with a
// PID namespace whose first process has ended.
//
// # Signals
//
// Only the shim signals the program, and only it reaps it. A process that has not been
// reaped keeps its number, so that no signal ever reaches a stranger.
//
// # One goroutine
//
// Everything about processes happens in Run's own goroutine, on one thread: the program
// dies with the thread that started it (PR_SET_PDEATHSIG), and so with the shim.
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

// ErrClaimed says that the directory has a shim already, or may not have one any more.
var ErrClaimed = errors.New("this container has a shim already, or has ended")

// Run is a shim's whole life. It returns when the program and all that descends from it
// are gone and how it ended is on disk; a program that cannot be started is such an end
// too. The context ends nothing: programs outlive those who ask about them.
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
	lock, err := claim(root)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	defer lock.Close()
	// Held until the process is no more, so that who gets the lock finds nothing of it.
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
	// Nothing that this process has open is the program's.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	if err := limit(); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	// Taken and not looked at: to ignore them would make the program ignore them too.
	others := make(chan os.Signal, 1)
	signal.Notify(others, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(others)
	s := &shim{spec: spec, root: root, requests: make(chan request), deaths: make(chan os.Signal, 1)}
	signal.Notify(s.deaths, syscall.SIGCHLD)
	defer signal.Stop(s.deaths)
	return s.run(ctx, listening)
}

// openFiles is how many files a program may have open.
const openFiles = 1 << 16

// limit bounds what the program may take of the machine, by the limits that it inherits:
// no core file, which would hold its secrets, and not every descriptor that there is.
func limit() error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Max = min(files.Max, openFiles)
	files.Cur = min(files.Cur, files.Max)
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files),
		syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}),
	)
}

// claim locks a container's directory, or returns ErrClaimed.
func claim(root *os.Root) (*os.File, error) {
	lock, err := root.OpenFile(fileLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(ErrClaimed, lock.Close())
	}
	return lock, nil
}

// shim is one program and its descendants.
type shim struct {
	spec Spec
	root *os.Root
	// console is what the program reads and writes.
	console console
	// view is the program's mount namespace; nil where it has none of its own.
	view *os.File

	requests chan request
	deaths   chan os.Signal
	main     *os.Process
	status   Status
	// commands are those that run beside the program, by their process.
	commands map[int]*command
	signals  signals

	output sync.WaitGroup // copies what processes write
	peers  audience
}

// run serves requests and reaps until everything has ended.
func (s *shim) run(ctx context.Context, listening func()) error {
	listener, err := listen(s.root)
	if err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	listening()
	s.commands, s.peers.conns, s.peers.talking = map[int]*command{}, map[*peer]struct{}{}, map[*peer]struct{}{}
	s.signals = signals{sent: map[int]bool{}, journal: journal{path: s.spec.Journal, container: filepath.Base(s.root.Name())}}
	var serving sync.WaitGroup
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer serving.Wait()
	defer end()
	defer listener.Close()
	if err := s.begin(); err != nil {
		s.status = Status{Exited: true, Failed: err.Error(), Code: 128, FinishedAt: clock.Clock{}.Now()}
		return s.finish()
	}
	serving.Go(func() { s.serve(ctx, listener) })
	s.peers.tell(s.status)
	memory := s.watchMemory()
	defer memory.Stop()
	for s.alive() {
		select {
		case <-s.deaths:
			s.reap()
		case asked := <-s.requests:
			s.carryOut(asked)
		case <-memory.C:
			s.weigh()
		}
	}
	s.peers.hurry()
	s.output.Wait()
	s.console.end()
	return s.finish()
}

// begin opens the log and starts the program.
func (s *shim) begin() error {
	logs, err := s.dir(dirLog)
	if err != nil {
		return err
	}
	if s.console.log, err = logfile.Open(logs, logfile.Limits{}, clock.Clock{}.Now); err != nil {
		return err
	}
	if s.spec.Dir == "" {
		if err := s.workHere(); err != nil {
			return err
		}
	}
	if _, err := s.dir(dirRoot); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	s.status = Status{Running: true, PID: s.main.Pid, StartedAt: clock.Clock{}.Now()}
	started, err := identify(s.main.Pid)
	if err == nil {
		err = writeJSON(s.root, fileProcess, started)
	}
	if err != nil { // it could not be found again: better that it never ran
		s.kill()
		return err
	}
	return nil
}

// workHere makes a directory for the program, in which it may write.
func (s *shim) workHere() error {
	work, err := s.dir(dirWork)
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

func (s *shim) dir(name string) (*os.Root, error) {
	if err := s.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return s.root.OpenRoot(name)
}

// finish puts the end on disk, and then tells it.
func (s *shim) finish() error {
	s.leaveCgroup()
	if err := writeJSON(s.root, fileExit, s.status); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	s.peers.tell(s.status)
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

// writeJSON puts a file in place as a whole, on disk, or not at all.
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

// listen makes the control socket. It is named through a descriptor of its directory,
// because a socket's path may not be longer than 107 bytes.
func listen(root *os.Root) (net.Listener, error) {
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
