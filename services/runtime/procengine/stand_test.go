package procengine_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// stand is an engine at work on a directory, in one life of a runtime after another.
type stand struct {
	*procengine.Engine

	t    *testing.T
	cfg  procengine.Config
	stop func()

	mu      sync.Mutex
	reports map[string]engine.Status
	news    chan struct{}
}

func newStand(t *testing.T, change func(*procengine.Config)) *stand {
	t.Helper()
	allow, err := procengine.NewAllowance([]string{"/bin"})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{
		t: t, cfg: procengine.Config{Dir: t.TempDir(), Shim: []string{os.Args[0], asShim}, Launch: []string{os.Args[0], asLaunch}, Allow: allow},
		reports: map[string]engine.Status{}, news: make(chan struct{}, 1),
	}
	if change != nil {
		change(&s.cfg)
	}
	s.live()
	t.Cleanup(func() {
		s.stop()
		for _, pid := range s.marked() {
			t.Errorf("process %d is left: %s", pid, commandLine(pid))
		}
	})
	return s
}

// live begins a life of the runtime.
func (s *stand) live() {
	s.t.Helper()
	e, err := procengine.New(s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Engine = e
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx, s.report) })
	s.stop = func() {
		cancel()
		running.Wait()
	}
}

func (s *stand) report(id string, status engine.Status) {
	s.mu.Lock()
	s.reports[id] = status
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *stand) request(name string, command ...string) engine.Container {
	return engine.Container{ID: name, Request: &proto.CreateContainerRequest{SandboxId: "box", Name: name, Command: command}}
}

// id is unique on the machine, so that what is left of other tests is not ours.
func (s *stand) id(name string) string { return filepath.Base(filepath.Dir(s.cfg.Dir)) + "-" + name }

// run starts a shell with a script, and waits until it has said "ready".
func (s *stand) run(name, script string) string {
	s.t.Helper()
	id := s.id(name)
	s.load(s.request(id, "/bin/sh", "-c", script))
	if err := s.Start(s.t.Context(), id, clock.Clock{}.Now()); err != nil {
		s.t.Fatal(err)
	}
	s.await(id, proto.ContainerState_CONTAINER_STATE_RUNNING)
	s.until("it is ready", func() bool { return strings.Contains(s.log(id), "ready") })
	return id
}

func (s *stand) load(c engine.Container) engine.Status {
	s.t.Helper()
	status, err := s.Load(s.t.Context(), c)
	if err != nil {
		s.t.Fatal("load:", err)
	}
	return status
}

func (s *stand) log(id string) string {
	s.t.Helper()
	log, err := s.Logs(s.t.Context(), &proto.ContainerLogsRequest{ContainerId: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(log)
}

func (s *stand) signal(id, name string) {
	s.t.Helper()
	if err := s.Signal(s.t.Context(), id, name, clock.Clock{}.Now()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) await(id string, state proto.ContainerState) engine.Status {
	s.t.Helper()
	for {
		s.mu.Lock()
		status := s.reports[id]
		s.mu.Unlock()
		if status.State >= state {
			return status
		}
		select {
		case <-s.news:
		case <-s.t.Context().Done():
			s.t.Fatalf("%s never was %v", id, state)
		}
	}
}

func (s *stand) wantExit(id string, code int32, reason string) {
	s.t.Helper()
	status := s.await(id, proto.ContainerState_CONTAINER_STATE_EXITED)
	if status.ExitCode != code || status.Reason != reason {
		s.t.Errorf("%s ended with %d %s %q, want %d %s", id, status.ExitCode, status.Reason, status.Message, code, reason)
	}
}

// until waits for a condition of the machine, about which nobody tells.
func (s *stand) until(what string, holds func() bool) {
	s.t.Helper()
	for !holds() {
		if err := (clock.Clock{}).Sleep(s.t.Context(), time.Millisecond); err != nil {
			s.t.Fatalf("never: %s", what)
		}
	}
}

// marked are the processes of this stand's containers that live.
func (s *stand) marked() []int {
	s.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(env, []byte(shim.Marker+"="+s.id(""))) {
			found = append(found, pid)
		}
	}
	return found
}

func commandLine(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
}

// shimOf is the process of a container's shim.
func (s *stand) shimOf(id string) int {
	s.t.Helper()
	pid := s.shimOfOrZero(id)
	if pid == 0 {
		s.t.Fatalf("%s has no shim", id)
	}
	return pid
}

func (s *stand) shimOfOrZero(id string) int {
	return s.processWith(asShim + " " + filepath.Join(s.cfg.Dir, id))
}

// processWith is a process whose command line ends so; 0 if there is none.
func (s *stand) processWith(end string) int {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && strings.HasSuffix(strings.TrimSpace(commandLine(pid)), end) {
			return pid
		}
	}
	return 0
}

func testNow() time.Time { return clock.Clock{}.Now() }

func (s *stand) kill(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// ready waits until a container has said that it is.
func (s *stand) ready(id string) {
	s.t.Helper()
	s.until(id+" is ready", func() bool {
		s.mu.Lock()
		status := s.reports[id]
		s.mu.Unlock()
		if status.State == exited {
			s.t.Fatalf("%s has ended with %+v, having said %q", id, status, s.log(id))
		}
		return status.State == proto.ContainerState_CONTAINER_STATE_RUNNING && strings.Contains(s.log(id), "ready")
	})
}
