package procengine_test

import (
	"context"
	"os"
	"testing"

	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/engine/enginetest"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// asShim is the argument that makes this test's binary a shim.
const asShim = "be-a-shim"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asShim {
		ready := os.NewFile(3, "listening")
		if err := shim.Run(context.Background(), os.Args[2], func() { ready.Close() }); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

func newEngine(t *testing.T, dir string) *procengine.Engine {
	t.Helper()
	allow, err := procengine.NewAllowance([]string{"/bin/sh", "/bin"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := procengine.New(procengine.Config{Dir: dir, Shim: []string{os.Args[0], asShim}, Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) engine.Engine { return newEngine(t, t.TempDir()) })
}
