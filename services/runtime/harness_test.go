package runtime_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/store"
)

// node is a runtime behind its node bus, with the kubelet's connection to it. It lives in a
// synctest bubble.
type node struct {
	*runtimeapi.Client

	t      *testing.T
	dir    string
	server *bus.Server
	conn   *bus.Conn // the runtime's
	kube   *bus.Conn
	cancel context.CancelFunc
	ended  chan error
	// recorder records the runtime's history; nil records none.
	recorder *history.Recorder
	// clock is shared by the runtime and its kubelet.
	clock clock.Clock
	// inspect returns the runtime's state.
	inspect func(context.Context) inspect.Runtime
	// faults holds the injected faults.
	faults *fault.Table
}

// bubble runs test with a new node in a synctest bubble.
func bubble(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, dir: t.TempDir(), faults: fault.NewTable(fault.Config{Process: "runtime/n", Node: "n"})}
		n.start()
		defer func() { n.stop() }()
		test(t, n)
	})
}

// start starts the bus, the runtime and the kubelet's connection, and waits for them.
func (n *node) start() {
	n.t.Helper()
	var err error
	if n.server, err = bus.StartServer(n.t.Context(), bus.ServerConfig{Port: bus.InProcessOnly}); err != nil {
		n.t.Fatal(err)
	}
	n.conn, n.kube = n.dial(proto.Runtime), n.dial(proto.Kubelet)
	ctx, cancel := context.WithCancel(n.t.Context())
	n.cancel, n.ended = cancel, make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		n.ended <- runtime.Run(ctx, runtime.Config{
			Bus: n.conn, DataDir: n.dir, Boot: proto.NewBoot(time.Now(), [4]byte{}),
			PodCIDR: "10.1.2.0/24", NoSync: true, Clock: n.clock, Faults: n.faults, Observers: inspect.Observers[inspect.Runtime]{
				History: n.recorder, Inspect: func(ask func(context.Context) inspect.Runtime) { n.inspect = ask },
			}, Ready: func() { close(ready) },
		})
	}()
	select {
	case <-ready:
	case err := <-n.ended:
		n.t.Fatal("the runtime ended:", err)
	}
	synctest.Wait()
	n.Client = runtimeapi.NewClient(n.kube, n.clock)
}

func (n *node) dial(id proto.Identity) *bus.Conn {
	n.t.Helper()
	conn, err := bus.Dial(n.t.Context(), bus.Config{Identity: id, InProcess: n.server.InProcessConn})
	if err != nil {
		n.t.Fatal(err)
	}
	return conn
}

// stop stops everything and waits.
func (n *node) stop() {
	n.t.Helper()
	n.kube.Close()
	n.cancel()
	if err := <-n.ended; err != nil {
		n.t.Error("the runtime ended:", err)
	}
	n.conn.Close()
	n.server.Close()
}

// restart stops the runtime gracefully and starts it again after the given time.
func (n *node) restart(after time.Duration) {
	n.t.Helper()
	n.stop()
	time.Sleep(after)
	n.start()
}

// crash simulates kill -9: the runtime starts again with what is on disk at this moment. Commits
// under way are awaited, because copying the file during a write would not give what a kill leaves
// behind.
func (n *node) crash(after time.Duration) {
	n.t.Helper()
	synctest.Wait()
	left := n.t.TempDir()
	from, err := os.Open(filepath.Join(n.dir, runtime.File))
	if err != nil {
		n.t.Fatal(err)
	}
	to, err := os.Create(filepath.Join(left, runtime.File))
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		n.t.Fatal(err)
	}
	if err := errors.Join(from.Close(), to.Close()); err != nil {
		n.t.Fatal(err)
	}
	n.stop()
	n.dir = left
	time.Sleep(after)
	n.start()
}

// runSandbox makes a sandbox for a pod.
func (n *node) runSandbox(pod string) *proto.Sandbox {
	n.t.Helper()
	box, err := n.RunPodSandbox(n.t.Context(), &proto.RunPodSandboxRequest{
		PodName: pod, PodNamespace: "default", PodUid: "uid-" + pod,
		Labels: map[string]string{"io.kubernetes.pod.uid": "uid-" + pod},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return box
}

// createContainer makes a container with a script.
func (n *node) createContainer(box *proto.Sandbox, name, script string) string {
	n.t.Helper()
	id, err := n.CreateContainer(n.t.Context(), &proto.CreateContainerRequest{
		SandboxId: box.Id, Name: name, Image: "busybox", Script: script,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// runPod makes a pod with one started container.
func (n *node) runPod(script string) (box *proto.Sandbox, id string) {
	n.t.Helper()
	box = n.runSandbox("web")
	id = n.createContainer(box, "app", script)
	if err := n.StartContainer(n.t.Context(), id); err != nil {
		n.t.Fatal(err)
	}
	return box, id
}

// status returns a container's current status.
func (n *node) status(id string) *proto.Container {
	n.t.Helper()
	c, err := n.ContainerStatus(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

const (
	created = proto.ContainerState_CONTAINER_STATE_CREATED
	running = proto.ContainerState_CONTAINER_STATE_RUNNING
	exited  = proto.ContainerState_CONTAINER_STATE_EXITED
)

func (n *node) wantState(id string, want proto.ContainerState) {
	n.t.Helper()
	if got := n.status(id); got.State != want {
		n.t.Errorf("container is %v (%d %s), want %v", got.State, got.ExitCode, got.Reason, want)
	}
}

// wantExit checks how a container ended, and how long after began.
func (n *node) wantExit(id string, began time.Time, after time.Duration, code int32, reason string) {
	n.t.Helper()
	c := n.status(id)
	if c.State != exited || c.ExitCode != code || c.Reason != reason {
		n.t.Errorf("container is %v %d %s, want EXITED %d %s", c.State, c.ExitCode, c.Reason, code, reason)
	}
	if got := time.Unix(0, c.FinishedAtUnixNano).Sub(began); c.State == exited && got != after {
		n.t.Errorf("it exited after %v, want %v", got, after)
	}
}

// signalHistory returns the recorded signals of a container, for example "SIGTERM@0s SIGKILL@5s"
// since began.
func (n *node) signalHistory(id string, began time.Time) string {
	n.t.Helper()
	return n.readHistory(id, began, func(e store.Entry) string { return e.Signal })
}

// eventHistory returns all recorded events of a container.
func (n *node) eventHistory(id string, began time.Time) string {
	n.t.Helper()
	return n.readHistory(id, began, func(e store.Entry) string { return e.What })
}

// readHistory stops the runtime, reads its file, and starts it again.
func (n *node) readHistory(id string, began time.Time, word func(store.Entry) string) string {
	n.t.Helper()
	n.stop()
	defer n.start()
	s, _, err := store.Open(store.Config{Path: filepath.Join(n.dir, runtime.File)})
	if err != nil {
		n.t.Fatal(err)
	}
	entries, err := s.History(0, 1<<20)
	if err := errors.Join(err, s.Close()); err != nil {
		n.t.Fatal(err)
	}
	text := ""
	for _, entry := range entries {
		if w := word(entry); entry.Container == id && w != "" {
			text += " " + w + "@" + time.Unix(0, entry.At).Sub(began).String()
		}
	}
	if text == "" {
		return ""
	}
	return text[1:]
}

// timed runs do and returns its duration and error.
func timed(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}

func wantTook(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != want {
		t.Errorf("%s:\n got %s\nwant %s", what, text, want)
	}
}
