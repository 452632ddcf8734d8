package procengine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
)

const exited = proto.ContainerState_CONTAINER_STATE_EXITED

// TestNothingIsLeft: everything that a program leaves behind is killed: children in new sessions,
// daemons that forked twice, children that ignore signals, and zombies.
func TestNothingIsLeft(t *testing.T) {
	for name, script := range map[string]string{
		"children":        "sleep 1000 & sleep 1000 & echo ready; read -r x; wait",
		"forked twice":    "(setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo ready; sleep 1000",
		"ignores signals": "(trap '' TERM INT HUP; sh -c 'sleep 1000') & echo ready; sleep 1000",
		"zombies":         "(sleep 0.01 &) ; (sh -c 'exit 3' &); echo ready; exec sleep 1000",
		"own groups":      "set -m; sleep 1000 & setsid sleep 1000 & echo ready; sleep 1000",
	} {
		for _, signal := range []string{"SIGTERM", "SIGKILL"} {
			t.Run(name+" "+signal, func(t *testing.T) {
				t.Parallel()
				s := newTestEngine(t, nil)
				id := s.runShell("app", script)
				s.signal(id, signal)
				want := map[string]int32{"SIGTERM": 143, "SIGKILL": 137}[signal]
				s.wantExit(id, want, engine.ReasonError)
				if left := s.markedProcesses(); len(left) > 0 {
					t.Errorf("when its end was told, %v were left", left)
				}
				s.Remove(t.Context(), id)
			})
		}
	}
}

// TestExitByItselfTakesItsChildren: a program's exit is reported when its last descendant has
// ended, even if it exits by itself.
func TestExitByItselfTakesItsChildren(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "setsid sleep 1000 & echo ready; exit 4")
	s.wantExit(id, 4, engine.ReasonError)
	if left := s.markedProcesses(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestCRI11InitRule is CRI-11: the first process of a container gets no signal without a handler.
func TestCRI11InitRule(t *testing.T) {
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Init = true })
	id := s.runShell("deaf", "echo ready; exec sleep 1000")
	s.signal(id, "SIGTERM")
	heeds := s.runShell("heeds", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	s.signal(heeds, "SIGTERM")
	s.wantExit(heeds, 0, engine.ReasonCompleted)
	if status := s.reports[id]; status.State == exited {
		t.Errorf("the signal ended it: %+v", status)
	}
	s.signal(id, "SIGKILL")
	s.wantExit(id, 137, engine.ReasonError)
}

// TestT8EnvironmentAndDescriptors is T8: the program gets what its manifest gives it, and nothing
// of the runtime's.
func TestT8EnvironmentAndDescriptors(t *testing.T) {
	t.Setenv("SECRET_OF_THE_RUNTIME", "canary")
	inherited, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	s := newTestEngine(t, nil)
	id := s.id("app")
	c := s.request(id, "/bin/sh", "-c", "env; pwd; ls /proc/self/fd; echo ready; exec sleep 1000")
	c.Request.Env = map[string]string{"GIVEN": "by the manifest", "BAD=NAME": "x", "PODFALL_CONTAINER": "forged"}
	s.load(c)
	if err := s.Start(t.Context(), id, clock.Clock{}.Now()); err != nil {
		t.Fatal(err)
	}
	s.poll("it is ready", func() bool { return strings.Contains(s.log(id), "ready") })
	log := s.log(id)
	lines := strings.SplitAfter(log, "\n")
	slices.Sort(lines[:4]) // a shell's order
	log = strings.Join(lines, "")
	want := "GIVEN=by the manifest\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" +
		"PODFALL_CONTAINER=" + id + "\nPWD=" + filepath.Join(s.cfg.Dir, id, "work") + "\n" +
		filepath.Join(s.cfg.Dir, id, "work") + "\n0\n1\n2\n3\nready\n" // 3 is the directory that ls reads
	if log != want {
		t.Errorf("the program sees\n%s\nwant\n%s", log, want)
	}
	s.signal(id, "SIGKILL")
	s.await(id, exited)
}

// TestRuntimeRestart: a restarted runtime finds its programs running, learns of their exits, and
// keeps their output.
func TestRuntimeRestart(t *testing.T) {
	s := newTestEngine(t, nil)
	runs := s.runShell("runs", "trap 'echo heard; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
	gate := filepath.Join(t.TempDir(), "gate")
	ends := s.runShell("ends", "echo ready; while [ ! -e "+gate+" ]; do sleep 0.01; done; exit 6")
	began := s.reports[runs].StartedAt
	s.stop()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.poll("it has ended", func() bool {
		_, err := os.Stat(filepath.Join(s.cfg.Dir, ends, "exit.json"))
		return err == nil
	})
	s.reports = map[string]engine.Status{}
	s.startRuntime()
	started := engine.Events{Start: began}
	found := s.load(engine.Container{ID: runs, Request: s.request(runs).Request, Events: started})
	if found.State != proto.ContainerState_CONTAINER_STATE_RUNNING || !found.StartedAt.Equal(began) {
		t.Errorf("what runs was found %+v, it started at %v", found, began)
	}
	found = s.load(engine.Container{ID: ends, Request: s.request(ends).Request, Events: started})
	if found.State != exited || found.ExitCode != 6 {
		t.Errorf("what has ended was found %+v", found)
	}
	s.signal(runs, "SIGTERM")
	s.wantExit(runs, 5, engine.ReasonError)
	if log := s.log(runs); log != "ready\nheard\n" {
		t.Errorf("its log is %q", log)
	}
}

// TestShimKilled: killing a shim kills its program. Remaining processes are found by this runtime
// process or the next.
func TestShimKilled(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := newTestEngine(t, nil)
		id := s.runShell("app", "setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & echo ready; sleep 1000")
		if restart {
			s.stop()
		}
		if err := syscall.Kill(s.shimOf(id), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if restart {
			s.poll("the shim has gone", func() bool { return s.shimOfOrZero(id) == 0 })
			s.startRuntime()
			found := s.load(engine.Container{ID: id, Request: s.request(id).Request, Events: engine.Events{Start: time.Unix(1, 0)}})
			if found.State != exited || found.ExitCode != 255 || found.Reason != engine.ReasonUnknown {
				t.Errorf("it was found %+v", found)
			}
		} else {
			s.wantExit(id, 255, engine.ReasonUnknown)
		}
		s.stop()
		if left := s.markedProcesses(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		s.startRuntime()
	}
}

// TestStartedButNeverRan: a container whose start was recorded before a shim existed never ran, and
// cannot start any more.
func TestStartedButNeverRan(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.id("app")
	found := s.load(engine.Container{ID: id, Request: s.request(id, "/bin/sh").Request, Events: engine.Events{Start: time.Unix(1, 0)}})
	if found.State != exited || found.ExitCode != 255 {
		t.Errorf("it was found %+v", found)
	}
}

func TestExecIsOfTheContainer(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	answer, err := s.Exec(t.Context(), &proto.ExecSyncRequest{
		ContainerId: id, Command: []string{"sh", "-c", "echo $PODFALL_CONTAINER; echo wrong >&2; exit 9"},
	})
	if err != nil || answer.ExitCode != 9 || string(answer.Stdout) != id+"\n" || string(answer.Stderr) != "wrong\n" {
		t.Errorf("exec: %v, %v", answer, err)
	}
	_, err = s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{"sleep", "1000"}, TimeoutSeconds: 1})
	if err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("a command that never ends: %v", err)
	}
	// A command that leaves a daemon behind: it is answered, and the daemon goes with the
	// container.
	if _, err := s.Exec(t.Context(), &proto.ExecSyncRequest{
		ContainerId: id, Command: []string{"sh", "-c", "setsid sleep 1000 &"},
	}); err != nil {
		t.Error(err)
	}
	s.signal(id, "SIGKILL")
	s.await(id, exited)
}

// TestCRI07StopSignalOnceOverRestarts is CRI-07: the stop signal is sent once, however often the
// runtime is killed around it.
func TestCRI07StopSignalOnceOverRestarts(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "trap 'echo heard' TERM; echo ready; while :; do sleep 0.01; done")
	s.signal(id, "SIGTERM")
	s.poll("it is heard", func() bool { return strings.Contains(s.log(id), "heard") })
	events := engine.Events{Start: testNow(), Stop: testNow()}
	for range 3 {
		s.stop()
		s.startRuntime()
		s.load(engine.Container{ID: id, Request: s.request(id).Request, Events: events})
		s.signal(id, "SIGTERM")
	}
	unsent := s.runShell("unsent", "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	s.stop()
	s.startRuntime()
	s.load(engine.Container{ID: unsent, Request: s.request(unsent).Request, Events: events})
	s.wantExit(unsent, 0, engine.ReasonCompleted) // on record, and not sent before the kill
	s.load(engine.Container{ID: id, Request: s.request(id).Request, Events: events})
	s.signal(id, "SIGKILL")
	s.wantExit(id, 137, engine.ReasonError)
	if log := s.log(id); log != "ready\nheard\n" {
		t.Errorf("its log is %q", log)
	}
}

// TestExitAtOnce: a program that exits before the engine could connect to its shim counts as having
// run.
func TestExitAtOnce(t *testing.T) {
	s := newTestEngine(t, nil)
	for i := range 40 {
		id := s.id(fmt.Sprint("app", i))
		s.load(s.request(id, "/bin/true"))
		if err := s.Start(t.Context(), id, testNow()); err != nil {
			t.Fatal(err)
		}
		s.wantExit(id, 0, engine.ReasonCompleted)
	}
}
