package cluster

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// gateVariable names the environment variable with the file that a kubelet of the test waits for.
const gateVariable = "PODFALL_TEST_GATE"

// TestMain is also the main function of all cluster processes in these tests.
func TestMain(m *testing.M) {
	if gate := os.Getenv(gateVariable); gate != "" && !strings.HasPrefix(os.Args[1], "-test.") {
		runFakeProcess(gate, os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// runFakeProcess publishes an address, reports ready, and waits for a signal. A kubelet waits for
// the gate file before it is ready, and an apiserver creates the file.
func runFakeProcess(gate string, arguments []string) {
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for i, flag := range arguments[:len(arguments)-1] {
		switch flag {
		case "--addresses":
			_ = WriteFile(arguments[i+1], []byte("{}"))
		case "--address":
			_ = WriteFile(arguments[i+1], []byte(`{"url":"nats://there"}`))
		}
	}
	switch arguments[0] {
	case "apiserver":
		_ = os.WriteFile(gate, nil, 0o600)
	case "kubelet":
		for !exists(gate) && ended.Err() == nil {
			_ = clock.Clock{}.Sleep(ended, 5*time.Millisecond)
		}
	}
	_, _ = os.NewFile(readyFD, "ready").WriteString(LineReady + "\n")
	<-ended.Done()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// startSupervised starts a cluster of one node under a supervisor.
func startSupervised(t *testing.T, gate string) (Layout, Options) {
	t.Helper()
	t.Setenv(gateVariable, gate)
	layout := Layout{Root: filepath.Join(t.TempDir(), "cluster")}
	options, err := layout.Create(Options{Name: "test", Nodes: []string{"node-1"}, Speed: 1}, func(Layout, Options) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, SignalStart)
	ctx, end := context.WithCancel(t.Context())
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- NewSupervisor(layout, options, func(line string) { t.Log(line) }).Run(ctx, again, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-over:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		if err := <-over; err != nil {
			t.Error(err)
		}
		signal.Stop(again)
	})
	return layout, options
}

// TestConcurrentStarts starts a kubelet, which waits for the apiserver, before the apiserver, and
// each of them twice. Each is started once, and all become ready.
func TestConcurrentStarts(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	layout, options := startSupervised(t, gate)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, name := range []string{"kubelet/node-1", "apiserver"} {
		if err := layout.Crash(ctx, options, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	before, err := layout.recordsByName()
	if err != nil {
		t.Fatal(err)
	}
	var (
		starts sync.WaitGroup
		mu     sync.Mutex
		said   []string
	)
	start := func(name string) {
		if err := layout.Restart(ctx, options, []string{name}, func(line string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, line)
		}); err != nil && !strings.HasSuffix(err.Error(), "runs already") {
			t.Errorf("start %s: %v", name, err)
		}
	}
	starts.Go(func() { start("kubelet/node-1") })
	starts.Go(func() { start("kubelet/node-1") })
	for layout.recordedPID(t, "kubelet/node-1") == before["kubelet/node-1"].PID && ctx.Err() == nil {
		_ = clock.Clock{}.Sleep(ctx, time.Millisecond)
	}
	starts.Go(func() { start("apiserver") })
	starts.Wait()
	slices.Sort(said)
	if len(slices.Compact(said)) != 2 {
		t.Errorf("started: %v; want one kubelet and one apiserver", said)
	}
}

// recordedPID returns the PID in the newest record of a name.
func (l Layout) recordedPID(t *testing.T, name string) int {
	t.Helper()
	records, err := l.recordsByName()
	if err != nil {
		t.Fatal(err)
	}
	return records[name].PID
}
