// Package enginetest is the conformance suite for engines: each engine's own tests call [Run].
//
// A case describes its container twice: as a script, for an engine that runs scripts, and as a
// shell command, for one that runs programs. Both must behave the same.
package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// behaviour describes one container for both kinds of engine.
type behaviour struct {
	script  string
	command string
	// memory is its limit in bytes; 0 sets none.
	memory int64
}

func exits(code int) behaviour {
	return behaviour{script: fmt.Sprintf("exits %d", code), command: fmt.Sprintf("exit %d", code)}
}

func exitsOnTerm(code int) behaviour {
	return behaviour{
		script:  fmt.Sprintf("on TERM exits %d", code),
		command: fmt.Sprintf("trap 'exit %d' TERM; echo ready; while :; do read -r line || sleep 1; done", code),
	}
}

func ignoresTerm() behaviour {
	return behaviour{script: "ignores TERM", command: "trap '' TERM; echo ready; while :; do sleep 1; done"}
}

func exceedsMemory() behaviour {
	return behaviour{
		script: "OOM after 100ms", memory: 32 << 20,
		command: "x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 1000",
	}
}

func failsToStart() behaviour { return behaviour{script: "fails to start"} }

const (
	created = proto.ContainerState_CONTAINER_STATE_CREATED
	running = proto.ContainerState_CONTAINER_STATE_RUNNING
	exited  = proto.ContainerState_CONTAINER_STATE_EXITED
)

// Run runs the suite. build makes a new engine for each test.
func Run(t *testing.T, build func(t *testing.T) engine.Engine) {
	for name, test := range map[string]func(*testing.T, *harness){
		"a loaded container is CREATED":              loadedIsCreated,
		"a started container runs":                   startedRuns,
		"a container exits by itself":                exitsByItself,
		"a failed start is 128 StartError":           startFails,
		"TERM ends what heeds it":                    termEnds,
		"TERM does not end what ignores it":          termIgnored,
		"KILL ends what runs":                        killEnds,
		"too much memory is 137 OOMKilled":           outOfMemory,
		"signals to what has exited do no harm":      signalsAfterExit,
		"signals to what was removed do no harm":     signalsAfterRemove,
		"removing is idempotent and ends everything": removing,
		"one container's end is no other's":          independent,
		"exec runs in a running container":           exec,
		"what is not loaded is not reached":          reach,
		"logs are kept until the container goes":     logs,
		"Run ends with its context":                  runEnds,
	} {
		t.Run(name, func(t *testing.T) { test(t, newHarness(t, build(t))) })
	}
}

// harness runs an engine and collects its reports.
type harness struct {
	engine.Engine

	t    *testing.T
	end  func()
	news chan struct{} // one token after each report

	mu      sync.Mutex
	reports map[string][]engine.Status
}

func newHarness(t *testing.T, e engine.Engine) *harness {
	ctx, cancel := context.WithCancel(t.Context())
	s := &harness{Engine: e, t: t, news: make(chan struct{}, 1), reports: map[string][]engine.Status{}}
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx, s.report); err != nil {
			t.Error("run:", err)
		}
	})
	s.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(s.end)
	return s
}

func (s *harness) report(id string, status engine.Status) {
	s.mu.Lock()
	s.reports[id] = append(s.reports[id], status)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// lastReport returns the last report about a container and the number of its reports.
func (s *harness) lastReport(id string) (engine.Status, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reports := s.reports[id]
	if len(reports) == 0 {
		return engine.Status{}, 0
	}
	return reports[len(reports)-1], len(reports)
}

// await returns the first report in which the container has reached the state.
func (s *harness) await(id string, state proto.ContainerState) engine.Status {
	s.t.Helper()
	for {
		if status, n := s.lastReport(id); n > 0 && status.State >= state {
			s.checkOrder(id)
			return status
		}
		select {
		case <-s.news:
		case <-s.t.Context().Done():
			s.t.Fatalf("container %s never was %v", id, state)
		}
	}
}

// checkOrder checks that the container's reported states only move forward.
func (s *harness) checkOrder(id string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := created
	for _, status := range s.reports[id] {
		if status.State <= state {
			s.t.Errorf("container %s was reported %v after %v", id, status.State, state)
		}
		state = status.State
	}
}

// load loads a container.
func (s *harness) load(id string, b behaviour) {
	s.t.Helper()
	command := []string{"/bin/sh", "-c", b.command}
	if b.command == "" {
		command = []string{"/nonexistent/program"}
	}
	status, err := s.Load(s.t.Context(), engine.Container{ID: id, Request: &proto.CreateContainerRequest{
		SandboxId: "box", Name: "app", Image: "any", Script: b.script, Command: command,
		Resources: &proto.LinuxContainerResources{MemoryLimitInBytes: b.memory},
	}})
	if err != nil {
		s.t.Fatal("load:", err)
	}
	if status != (engine.Status{}) {
		s.t.Errorf("a new container is %+v", status)
	}
}

// runReady loads and starts a container, and waits until it runs and has printed "ready". Before
// that, a program may not have set its traps yet.
func (s *harness) runReady(id string, b behaviour) engine.Status {
	s.t.Helper()
	s.load(id, b)
	s.start(id)
	status := s.await(id, running)
	for {
		log, err := s.Logs(s.t.Context(), &proto.ContainerLogsRequest{ContainerId: id})
		if err != nil {
			s.t.Fatal("logs:", err)
		}
		if len(log) > 0 {
			return status
		}
		if err := (clock.Clock{}).Sleep(s.t.Context(), time.Millisecond); err != nil {
			s.t.Fatalf("container %s never wrote anything: %v", id, err)
		}
	}
}

func (s *harness) start(id string) {
	s.t.Helper()
	if err := s.Start(s.t.Context(), id, clock.Clock{}.Now()); err != nil {
		s.t.Fatal("start:", err)
	}
}

func (s *harness) signal(id, name string) {
	s.t.Helper()
	if err := s.Signal(s.t.Context(), id, name, clock.Clock{}.Now()); err != nil {
		s.t.Error("signal:", err)
	}
}

// wantExit checks how a container ended.
func (s *harness) wantExit(status engine.Status, code int32, reason string) {
	s.t.Helper()
	if status.State != exited || status.ExitCode != code || status.Reason != reason {
		s.t.Errorf("it is %+v, want EXITED %d %s", status, code, reason)
	}
	if status.FinishedAt.IsZero() || status.FinishedAt.Before(status.StartedAt) {
		s.t.Errorf("it ran from %v to %v", status.StartedAt, status.FinishedAt)
	}
}

func loadedIsCreated(_ *testing.T, s *harness) { s.load("a", exitsOnTerm(0)) }

func startedRuns(t *testing.T, s *harness) {
	before := clock.Clock{}.Now()
	status := s.runReady("a", ignoresTerm())
	if status.State != running || status.StartedAt.Before(before.Add(-time.Second)) || !status.FinishedAt.IsZero() {
		t.Errorf("it is %+v", status)
	}
	s.Remove(t.Context(), "a")
}

func exitsByItself(_ *testing.T, s *harness) {
	for code, reason := range map[int]string{0: engine.ReasonCompleted, 1: engine.ReasonError, 255: engine.ReasonError} {
		id := fmt.Sprint("exits", code)
		s.load(id, exits(code))
		s.start(id)
		s.wantExit(s.await(id, exited), int32(code), reason)
	}
}

func startFails(t *testing.T, s *harness) {
	s.load("a", failsToStart())
	s.start("a")
	status := s.await("a", running)
	s.wantExit(status, engine.ExitStartError, engine.ReasonStartError)
	if !status.StartedAt.IsZero() || status.Message == "" {
		t.Errorf("it started at %v: %q", status.StartedAt, status.Message)
	}
}

func termEnds(_ *testing.T, s *harness) {
	s.runReady("a", exitsOnTerm(0))
	s.signal("a", engine.SIGTERM)
	s.wantExit(s.await("a", exited), 0, engine.ReasonCompleted)
	s.runReady("b", exitsOnTerm(7))
	s.signal("b", engine.SIGTERM)
	s.wantExit(s.await("b", exited), 7, engine.ReasonError)
}

func termIgnored(t *testing.T, s *harness) {
	s.runReady("a", ignoresTerm())
	s.signal("a", engine.SIGTERM)
	// Another container, started and ended after that, shows that nothing is under way.
	s.load("b", exits(0))
	s.start("b")
	s.await("b", exited)
	if status, _ := s.lastReport("a"); status.State != running {
		t.Errorf("it is %+v", status)
	}
	s.signal("a", engine.SIGKILL)
	s.wantExit(s.await("a", exited), engine.ExitKilled, engine.ReasonError)
}

func killEnds(_ *testing.T, s *harness) {
	s.runReady("a", exitsOnTerm(0))
	s.signal("a", engine.SIGKILL)
	s.wantExit(s.await("a", exited), engine.ExitKilled, engine.ReasonError)
}

func outOfMemory(_ *testing.T, s *harness) {
	s.load("a", exceedsMemory())
	s.start("a")
	s.wantExit(s.await("a", exited), engine.ExitKilled, engine.ReasonOOMKilled)
}

func signalsAfterExit(t *testing.T, s *harness) {
	s.load("a", exits(3))
	s.start("a")
	s.await("a", exited)
	_, reports := s.lastReport("a")
	s.signal("a", engine.SIGTERM)
	s.signal("a", engine.SIGKILL)
	s.load("b", exits(0))
	s.start("b")
	s.await("b", exited)
	if status, n := s.lastReport("a"); n != reports || status.ExitCode != 3 {
		t.Errorf("it is %+v after %d reports, there were %d", status, n, reports)
	}
}

func signalsAfterRemove(t *testing.T, s *harness) {
	s.runReady("a", exitsOnTerm(0))
	s.Remove(t.Context(), "a")
	s.signal("a", engine.SIGTERM)
	s.signal("a", engine.SIGKILL)
}

func removing(t *testing.T, s *harness) {
	s.runReady("a", ignoresTerm())
	s.signal("a", engine.SIGKILL)
	s.await("a", exited)
	for range 3 {
		s.Remove(t.Context(), "a")
	}
	s.Remove(t.Context(), "never was")
	if err := s.Start(t.Context(), "a", clock.Clock{}.Now()); err == nil {
		t.Error("a removed container starts")
	}
}

func independent(t *testing.T, s *harness) {
	s.runReady("a", exitsOnTerm(0))
	s.runReady("b", exitsOnTerm(0))
	s.signal("a", engine.SIGTERM)
	s.await("a", exited)
	if status, _ := s.lastReport("b"); status.State != running {
		t.Errorf("the other is %+v", status)
	}
	s.signal("b", engine.SIGKILL)
	s.await("b", exited)
}

func exec(t *testing.T, s *harness) {
	s.runReady("a", ignoresTerm())
	answer, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: "a", Command: []string{"/bin/sh", "-c", "exit 0"}})
	if err != nil || answer.ExitCode != 0 {
		t.Errorf("exec: %v, %v", answer, err)
	}
	s.signal("a", engine.SIGKILL)
	s.await("a", exited)
	if _, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: "never was"}); err == nil {
		t.Error("a container that never was runs a command")
	}
}

func reach(t *testing.T, s *harness) {
	if _, err := s.Reach(t.Context(), &proto.ReachRequest{ContainerId: "never was", Scheme: "tcp", Port: 1}); err == nil {
		t.Error("a container that never was answers")
	}
}

func logs(t *testing.T, s *harness) {
	s.runReady("a", exitsOnTerm(0))
	s.signal("a", engine.SIGTERM)
	s.await("a", exited)
	log, err := s.Logs(t.Context(), &proto.ContainerLogsRequest{ContainerId: "a"})
	if err != nil || len(log) == 0 {
		t.Errorf("logs: %q, %v", log, err)
	}
	s.Remove(t.Context(), "a")
	if _, err := s.Logs(t.Context(), &proto.ContainerLogsRequest{ContainerId: "a"}); err == nil {
		t.Error("a removed container has logs")
	}
}

func runEnds(_ *testing.T, s *harness) {
	s.load("a", exitsOnTerm(0))
	s.end()
}
