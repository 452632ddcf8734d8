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

// testEngine runs an engine on a directory, through several restarts of the runtime.
type testEngine struct {
	*procengine.Engine

	t    *testing.T
	cfg  procengine.Config
	stop func()

	mu      sync.Mutex
	reports map[string]engine.Status
	news    chan struct{}
}

func newTestEngine(t *testing.T, change func(*procengine.Config)) *testEngine {
	t.Helper()
	allow, err := procengine.NewAllowlist([]string{"/bin"})
	if err != nil {
		t.Fatal(err)
	}
	s := &testEngine{
		t: t, cfg: procengine.Config{Dir: t.TempDir(), Shim: []string{os.Args[0], asShim}, Launch: []string{os.Args[0], asLaunch}, Allow: allow},
		reports: map[string]engine.Status{}, news: make(chan struct{}, 1),
	}
	if change != nil {
		change(&s.cfg)
	}
	s.startRuntime()
	t.Cleanup(func() {
		s.stop()
		for _, pid := range s.markedProcesses() {
			t.Errorf("process %d is left: %s", pid, commandLine(pid))
		}
	})
	return s
}

// startRuntime starts a new engine on the directory.
func (s *testEngine) startRuntime() {
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

func (s *testEngine) report(id string, status engine.Status) {
	s.mu.Lock()
	s.reports[id] = status
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *testEngine) request(name string, command ...string) engine.Container {
	return engine.Container{ID: name, Request: &proto.CreateContainerRequest{SandboxId: "box", Name: name, Command: command}}
}

// id is unique on the machine, so that processes left by other tests are not taken for this test's.
func (s *testEngine) id(name string) string {
	return filepath.Base(filepath.Dir(s.cfg.Dir)) + "-" + name
}

// runShell starts a shell script and waits until it prints "ready".
func (s *testEngine) runShell(name, script string) string {
	s.t.Helper()
	id := s.id(name)
	s.load(s.request(id, "/bin/sh", "-c", script))
	if err := s.Start(s.t.Context(), id, clock.Clock{}.Now()); err != nil {
		s.t.Fatal(err)
	}
	s.await(id, proto.ContainerState_CONTAINER_STATE_RUNNING)
	s.poll("it is ready", func() bool { return strings.Contains(s.log(id), "ready") })
	return id
}

func (s *testEngine) load(c engine.Container) engine.Status {
	s.t.Helper()
	status, err := s.Load(s.t.Context(), c)
	if err != nil {
		s.t.Fatal("load:", err)
	}
	return status
}

func (s *testEngine) log(id string) string {
	s.t.Helper()
	log, err := s.Logs(s.t.Context(), &proto.ContainerLogsRequest{ContainerId: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(log)
}

func (s *testEngine) signal(id, name string) {
	s.t.Helper()
	if err := s.Signal(s.t.Context(), id, name, clock.Clock{}.Now()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testEngine) await(id string, state proto.ContainerState) engine.Status {
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

func (s *testEngine) wantExit(id string, code int32, reason string) {
	s.t.Helper()
	status := s.await(id, proto.ContainerState_CONTAINER_STATE_EXITED)
	if status.ExitCode != code || status.Reason != reason {
		s.t.Errorf("%s ended with %d %s %q, want %d %s", id, status.ExitCode, status.Reason, status.Message, code, reason)
	}
}

// poll waits for a condition of the machine that sends no notification.
func (s *testEngine) poll(what string, holds func() bool) {
	s.t.Helper()
	for !holds() {
		if err := (clock.Clock{}).Sleep(s.t.Context(), time.Millisecond); err != nil {
			s.t.Fatalf("never: %s", what)
		}
	}
}

// markedProcesses returns the live processes of this engine's containers.
func (s *testEngine) markedProcesses() []int {
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

// shimOf returns the PID of a container's shim.
func (s *testEngine) shimOf(id string) int {
	s.t.Helper()
	pid := s.shimOfOrZero(id)
	if pid == 0 {
		s.t.Fatalf("%s has no shim", id)
	}
	return pid
}

func (s *testEngine) shimOfOrZero(id string) int {
	return s.processWith(asShim + " " + filepath.Join(s.cfg.Dir, id))
}

// processWith returns a process with a command line that ends with end; 0 if there is none.
func (s *testEngine) processWith(end string) int {
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

func (s *testEngine) kill(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// awaitReady waits until a container has printed "ready".
func (s *testEngine) awaitReady(id string) {
	s.t.Helper()
	s.poll(id+" is ready", func() bool {
		s.mu.Lock()
		status := s.reports[id]
		s.mu.Unlock()
		if status.State == exited {
			s.t.Fatalf("%s has ended with %+v, having said %q", id, status, s.log(id))
		}
		return status.State == proto.ContainerState_CONTAINER_STATE_RUNNING && strings.Contains(s.log(id), "ready")
	})
}
