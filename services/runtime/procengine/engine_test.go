package procengine_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/engine/enginetest"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// Arguments that make this test's binary a shim, a shim that never answers, and so on.
const (
	asShim       = "be-a-shim"
	asSilentShim = "be-a-mute-shim"
	asLaunch     = "be-launched"
	asFirst      = "be-the-first"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asFirst {
		os.Exit(runPIDReuse(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == asProxy {
		runProxy(os.Args[2])
		return
	}
	if len(os.Args) == 2 && os.Args[1] == asLaunch {
		_ = launch.Run() // it has reported what went wrong
		return
	}
	if len(os.Args) == 3 && os.Args[1] == asSilentShim {
		runSilentShim(os.Args[2])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == asShim {
		ready := os.NewFile(3, "listening")
		if err := shim.Run(context.Background(), os.Args[2], func() { ready.Close() }); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// runSilentShim accepts a runtime's connections and never answers, until it is killed.
func runSilentShim(dir string) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "unix", filepath.Join(dir, "control"))
	if err != nil {
		panic(err)
	}
	os.NewFile(3, "listening").Close()
	for {
		if _, err := listener.Accept(); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "asked"), nil, 0o600); err != nil {
			panic(err)
		}
	}
}

func newEngine(t *testing.T, dir string, isolation procengine.Isolation) *procengine.Engine {
	t.Helper()
	allow, err := procengine.NewAllowlist([]string{"/bin/sh", "/bin"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what a test leaves behind ends before its directory goes
		if err := procengine.KillAll(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	e, err := procengine.New(procengine.Config{
		Dir: dir, Shim: []string{os.Args[0], asShim}, Launch: launchCommand(), Allow: allow, Isolation: isolation,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func launchCommand() []string { return []string{os.Args[0], asLaunch} }

// TestConformance runs the suite with every isolation that this machine permits; see also
// TestAsNobody.
func TestConformance(t *testing.T) {
	for name, isolation := range isolations(t) {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) engine.Engine { return newEngine(t, t.TempDir(), isolation) })
		})
	}
}

// TestStopDuringShimStart: a runtime that stops before a shim has answered does not wait for the
// shim. It does not report an exit, because the container may be about to run.
func TestStopDuringShimStart(t *testing.T) {
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Shim = []string{os.Args[0], asSilentShim} })
	id := s.id("app")
	s.load(s.request(id, "/bin/sh"))
	if err := s.Start(t.Context(), id, testNow()); err != nil {
		t.Fatal(err)
	}
	s.poll("the shim has been asked", func() bool {
		_, err := os.Stat(filepath.Join(s.cfg.Dir, id, "asked"))
		return err == nil
	})
	pid := s.processWith(asSilentShim + " " + filepath.Join(s.cfg.Dir, id))
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	s.stop()
	if status, told := s.reports[id]; told {
		t.Errorf("the runtime has told %+v", status)
	}
}

// TestUnreachableShim: an unreachable shim is a failed start, and leaves no process.
func TestUnreachableShim(t *testing.T) {
	const deaf = "exec 3>&-; exec sleep 1000"
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Shim = []string{"/bin/sh", "-c", deaf} })
	id := s.id("app")
	s.load(s.request(id, "/bin/sh"))
	if err := s.Start(t.Context(), id, testNow()); err != nil {
		t.Fatal(err)
	}
	s.wantExit(id, engine.ExitStartError, engine.ReasonStartError)
}
