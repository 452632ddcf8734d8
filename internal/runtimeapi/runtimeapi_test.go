package runtimeapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
)

// node is a node bus with a served runtime and the kubelet's end of it.
type node struct {
	t      *testing.T
	server *bus.Server
	kube   *bus.Conn
	client *runtimeapi.Client
	stop   func() // ends Serve and waits
}

func startNode(t *testing.T, do func(ctx context.Context, call string) error) *node {
	t.Helper()
	return startNodeOn(t, clock.Clock{}, do)
}

// startNodeOn is startNode on another clock than the wall.
func startNodeOn(t *testing.T, clk clock.Clock, do func(ctx context.Context, call string) error) *node {
	t.Helper()
	return startNodeWith(t, clk, nil, do)
}

// startNodeWith is startNodeOn with faults.
func startNodeWith(t *testing.T, clk clock.Clock, faults *fault.Table, do func(ctx context.Context, call string) error) *node {
	t.Helper()
	n := &node{t: t}
	var err error
	if n.server, err = bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly}); err != nil {
		t.Fatal(err)
	}
	runtime := n.dial(proto.Runtime)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- runtimeapi.Serve(ctx, runtimeapi.ServerConfig{Bus: runtime, Runtime: fake{do: do}, Clock: clk, Faults: faults, Attributes: attributes, Log: slog.New(slog.DiscardHandler)})
	}()
	n.stop = func() {
		cancel()
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
		n.stop = func() {}
	}
	n.kube = n.dial(proto.Kubelet)
	n.client = runtimeapi.NewClient(n.kube, clk)
	synctest.Wait()
	t.Cleanup(func() {
		n.kube.Close()
		n.stop()
		runtime.Close()
		n.server.Close()
	})
	return n
}

func (n *node) dial(id proto.Identity) *bus.Conn {
	n.t.Helper()
	conn, err := bus.Dial(n.t.Context(), bus.Config{Identity: id, InProcess: n.server.InProcessConn})
	if err != nil {
		n.t.Fatal(err)
	}
	return conn
}

// calls is one call of each method, with what the runtime must receive and what must be returned.
func calls(c *runtimeapi.Client) map[string]func(context.Context) (any, error) {
	none := func(err error) (any, error) { return nil, err }
	return map[string]func(context.Context) (any, error){
		"RunPodSandbox u": func(ctx context.Context) (any, error) {
			return c.RunPodSandbox(ctx, &proto.RunPodSandboxRequest{PodUid: "u"})
		},
		"StopPodSandbox s1":   func(ctx context.Context) (any, error) { return none(c.StopPodSandbox(ctx, "s1")) },
		"RemovePodSandbox s1": func(ctx context.Context) (any, error) { return none(c.RemovePodSandbox(ctx, "s1")) },
		"PodSandboxStatus s1": func(ctx context.Context) (any, error) { return c.PodSandboxStatus(ctx, "s1") },
		"ListPodSandbox u":    func(ctx context.Context) (any, error) { return c.ListPodSandbox(ctx, "u") },
		"CreateContainer web ignores TERM": func(ctx context.Context) (any, error) {
			return c.CreateContainer(ctx, &proto.CreateContainerRequest{Name: "web", Script: "ignores TERM"})
		},
		"StartContainer c1":   func(ctx context.Context) (any, error) { return none(c.StartContainer(ctx, "c1")) },
		"StopContainer c1 30": func(ctx context.Context) (any, error) { return none(c.StopContainer(ctx, "c1", 30)) },
		"RemoveContainer c1":  func(ctx context.Context) (any, error) { return none(c.RemoveContainer(ctx, "c1")) },
		"ContainerStatus c1":  func(ctx context.Context) (any, error) { return c.ContainerStatus(ctx, "c1") },
		"ListContainers u":    func(ctx context.Context) (any, error) { return c.ListContainers(ctx, "u") },
		"ExecSync [true]": func(ctx context.Context) (any, error) {
			return c.ExecSync(ctx, &proto.ExecSyncRequest{Command: []string{"true"}})
		},
		"ImageStatus nginx": func(ctx context.Context) (any, error) { return c.ImageStatus(ctx, "nginx") },
		"PullImage nginx":   func(ctx context.Context) (any, error) { return c.PullImage(ctx, "nginx") },
		"ContainerLogs c1": func(ctx context.Context) (any, error) {
			return c.ContainerLogs(ctx, &proto.ContainerLogsRequest{ContainerId: "c1"})
		},
	}
}

// CRI-01: every call arrives as it was made, and its answer as it was given.
func TestCRI01EveryCallCrosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard string
		direct := fake{do: func(context.Context, string) error { return nil }}
		n := startNode(t, func(_ context.Context, call string) error { heard = call; return nil })
		want := map[string]any{
			"RunPodSandbox u":                  &proto.Sandbox{Id: "s1", PodUid: "u", Ip: "10.0.0.1"},
			"PodSandboxStatus s1":              &proto.Sandbox{Id: "s1", State: proto.SandboxState_SANDBOX_STATE_NOTREADY},
			"ListPodSandbox u":                 []*proto.Sandbox{{Id: "s1"}, {Id: "s2"}},
			"CreateContainer web ignores TERM": "c1",
			"ContainerStatus c1":               &proto.Container{Id: "c1", ExitCode: 137},
			"ExecSync [true]":                  &proto.ExecSyncResponse{ExitCode: 3},
			"ContainerLogs c1":                 []byte("a line\n"),
			"ImageStatus nginx":                true,
			"PullImage nginx":                  int64(42),
		}
		want["ListContainers u"], _ = direct.ListContainers(t.Context(), "u")
		for call, do := range calls(n.client) {
			got, err := do(t.Context())
			if err != nil {
				t.Errorf("%s: %v", call, err)
			}
			if heard != call {
				t.Errorf("made %q, the runtime heard %q", call, heard)
			}
			if diff := cmp.Diff(want[call], got, protocmp.Transform()); diff != "" {
				t.Errorf("%s answered (-want +got):\n%s", call, diff)
			}
		}
	})
}

// CRI-06: each call has its deadline, and ends on both sides when it has passed.
func TestCRI06Deadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		n := startNode(t, func(ctx context.Context, _ string) error {
			<-ctx.Done()
			ended <- time.Now()
			return ctx.Err()
		})
		for call, do := range calls(n.client) {
			want := 2 * time.Minute
			switch call {
			case "StopContainer c1 30":
				want = 2*time.Minute + 30*time.Second
			case "ExecSync [true]", "PullImage nginx":
				continue // no deadline; see TestCRI06ExecSync
			}
			began := time.Now()
			_, err := do(t.Context())
			wantError(t, call, err, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
			if proto.IsRuntimeUnavailable(err) {
				t.Errorf("%s: the runtime has said that the deadline was over, and is taken to be away", call)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s ended after %v, want %v", call, took, want)
			}
			if at := (<-ended).Sub(began); at != want {
				t.Errorf("%s ended in the runtime after %v, want %v", call, at, want)
			}
		}
	})
}

// CRI-06: ExecSync without a timeout may take for ever; with one it has that and two
// minutes.
func TestCRI06ExecSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, func(ctx context.Context, _ string) error {
			if _, bounded := ctx.Deadline(); bounded {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Hour)
			return nil
		})
		if _, err := n.client.ExecSync(t.Context(), &proto.ExecSyncRequest{}); err != nil {
			t.Error("without a timeout:", err)
		}
		began := time.Now()
		_, err := n.client.ExecSync(t.Context(), &proto.ExecSyncRequest{TimeoutSeconds: 10})
		wantError(t, "ExecSync", err, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		if took, want := time.Since(began), 130*time.Second; took != want {
			t.Errorf("ended after %v, want %v", took, want)
		}
	})
}

// A runtime that does not report the deadline delays its caller by 100 ms.
func TestSilentRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := startNode(t, func(context.Context, string) error { <-release; return nil })
		began := time.Now()
		err := n.client.StopPodSandbox(t.Context(), "s1")
		wantError(t, "StopPodSandbox", err, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		if !proto.IsRuntimeUnavailable(err) {
			t.Error("a runtime that says nothing is not taken to be away")
		}
		if took, want := time.Since(began), 2*time.Minute+100*time.Millisecond; took != want {
			t.Errorf("ended after %v, want %v", took, want)
		}
		close(release)
	})
}

// The cluster's clock is what deadlines are measured on.
func TestDeadlineOnClusterClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		face, err := clock.NewSchedule(time.Now(), 60)
		if err != nil {
			t.Fatal(err)
		}
		fast := clock.NewDriver(face).Clock()
		n := startNodeOn(t, fast, func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		err = n.client.StopContainer(t.Context(), "c1", 60)
		wantError(t, "StopContainer", err, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		if took, want := time.Since(began), 3*time.Second; took != want {
			t.Errorf("three minutes at rate 60 took %v, want %v", took, want)
		}
	})
}

// A call that is under way when the clock is paused ends when it has gone on for long enough.
func TestAPauseHoldsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		face, err := clock.NewSchedule(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		m := clock.NewDriver(face)
		n := startNodeOn(t, m.Clock(), func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		m.Set(face.WithPause(began.Add(time.Minute)).WithResume(began.Add(time.Hour)))
		err = n.client.StopContainer(t.Context(), "c1", 60)
		wantError(t, "StopContainer", err, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		if took, want := time.Since(began), time.Hour+2*time.Minute; took != want {
			t.Errorf("three minutes, with 59 min of pause in them, took %v, want %v", took, want)
		}
	})
}

// A call that its caller cancels ends in the runtime at once.
func TestGivingUpEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		n := startNode(t, func(ctx context.Context, _ string) error {
			<-ctx.Done()
			ended <- time.Now()
			return ctx.Err()
		})
		ctx, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, giveUp)
		began := time.Now()
		err := n.client.StopContainer(ctx, "c1", 30)
		wantError(t, "StopContainer", err, "rpc error: code = Canceled desc = context canceled")
		if took := (<-ended).Sub(began); took != 10*time.Second {
			t.Errorf("ended in the runtime after %v, want 10s", took)
		}
	})
}

// If the caller's own deadline is earlier, it limits the call on both sides.
func TestCallersOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		n := startNode(t, func(ctx context.Context, _ string) error {
			<-ctx.Done()
			ended <- time.Now()
			return ctx.Err()
		})
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 7*time.Second)
		defer stop()
		err := n.client.StopContainer(ctx, "c1", 30)
		wantError(t, "StopContainer", err, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		if took := (<-ended).Sub(began); took != 7*time.Second {
			t.Errorf("ended in the runtime after %v, want 7s", took)
		}
	})
}

// A call that panics is answered, and the next is made.
func TestPanicIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, func(_ context.Context, call string) error {
			if call == "ContainerStatus c1" {
				panic("a bug")
			}
			return nil
		})
		_, err := n.client.ContainerStatus(t.Context(), "c1")
		wantError(t, "ContainerStatus", err, "rpc error: code = Unknown desc = this call made the container runtime panic; its log says how")
		if _, err := n.client.ContainerStatus(t.Context(), "c2"); err != nil {
			t.Error("the next call:", err)
		}
	})
}

// CRI-15: a runtime that is not connected, or disconnects, is Unavailable at once.
func TestCRI15Unavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		pending := make(chan error, 1)
		go func() { pending <- n.client.StopContainer(t.Context(), "c1", 30) }()
		time.Sleep(10 * time.Second)
		began := time.Now()
		n.stop()
		wantError(t, "pending call", <-pending, "rpc error: code = Unavailable desc = the container runtime is stopping")
		err := n.client.StopContainer(t.Context(), "c1", 30)
		if !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
			t.Errorf("new call: %v, want Unavailable", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("answered after %v, want at once", took)
		}
	})
}

// Errors keep their code and text; whatever is not a RuntimeError is Unknown.
func TestErrorsCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var give error
		n := startNode(t, func(context.Context, string) error { return give })
		for want, err := range map[string]error{
			"rpc error: code = NotFound desc = no c1": &proto.RuntimeError{Code: proto.CodeNotFound, Desc: "no c1"},
			"rpc error: code = NotFound desc = no c2": fmt.Errorf("wrapped: %w", &proto.RuntimeError{Code: proto.CodeNotFound, Desc: "no c2"}),
			"rpc error: code = Unknown desc = odd":    errors.New("odd"),
		} {
			give = err
			_, got := n.client.ContainerStatus(t.Context(), "c1")
			wantError(t, "ContainerStatus", got, want)
		}
	})
}

// Malformed envelopes, other versions and bodies of other methods are refused with a reason and have
// no effect.
func TestBadEnvelopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, func(_ context.Context, call string) error {
			t.Error("the runtime was asked for", call)
			return nil
		})
		encode := func(q *proto.RuntimeRequest) []byte {
			raw, err := protobuf.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		for name, row := range map[string]struct {
			raw  []byte
			want string
		}{
			"noise":   {[]byte("\xff\xff\xff"), "not a RuntimeRequest"},
			"version": {encode(&proto.RuntimeRequest{Version: 99}), "version 99: this runtime speaks version 1"},
			"body":    {encode(&proto.RuntimeRequest{Version: 1, Body: []byte("\xff\xff")}), "not a StopContainerRequest"},
		} {
			raw, err := n.kube.Request(t.Context(), proto.Runtime, proto.CRISubject("StopContainer"), row.raw)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var got proto.RuntimeResponse
			if err := protobuf.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if got.Code != proto.CodeInvalidArgument || !bytes.Contains([]byte(got.Message), []byte(row.want)) {
				t.Errorf("%s: %s %q, want InvalidArgument %q", name, got.Code, got.Message, row.want)
			}
		}
	})
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("%s: %v\nwant %s", what, err, want)
	}
	if err != nil {
		if _, ok := errors.AsType[*proto.RuntimeError](err); !ok {
			t.Errorf("%s: %T is no RuntimeError", what, err)
		}
	}
}

// TestCallsEndWithTheirRuntime: calls without a deadline end once another incarnation of the
// runtime has answered, because nothing else would end them.
func TestCallsEndWithTheirRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		n := &node{t: t, server: server}
		begin := func(do func(ctx context.Context, call string) error) (crash func()) {
			conn := n.dial(proto.Runtime)
			var serving sync.WaitGroup
			serving.Go(func() { // it fails when it crashes
				_ = runtimeapi.Serve(t.Context(), runtimeapi.ServerConfig{Bus: conn, Runtime: fake{do: do}, Attributes: attributes, Log: slog.New(slog.DiscardHandler)})
			})
			synctest.Wait()
			return func() { conn.Close(); serving.Wait() }
		}
		kubelet := n.dial(proto.Kubelet)
		defer kubelet.Close()
		client := runtimeapi.NewClient(kubelet, clock.Clock{})
		list := func() {
			if _, err := client.ListContainers(t.Context(), ""); err != nil {
				t.Error(err)
			}
		}
		crash := begin(func(ctx context.Context, call string) error {
			if call == "PullImage huge" {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		list()
		ended := make(chan error, 1)
		go func() {
			_, err := client.PullImage(t.Context(), "huge")
			ended <- err
		}()
		synctest.Wait()
		crash()
		time.Sleep(time.Hour)
		if len(ended) > 0 {
			t.Fatalf("nobody has answered the pull, and it has ended: %v", <-ended)
		}
		defer begin(func(context.Context, string) error { return nil })()
		list()
		synctest.Wait()
		select {
		case err := <-ended:
			if !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
				t.Errorf("the pull ended with %v, want Unavailable", err)
			}
		default:
			t.Fatal("the pull waits for a runtime that is gone")
		}
		if _, err := client.PullImage(t.Context(), "huge"); err != nil {
			t.Errorf("the next runtime pulls: %v", err)
		}
	})
}
