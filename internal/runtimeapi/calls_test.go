package runtimeapi_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
)

// A new incarnation of a caller ends the calls of the one before.
func TestNewIncarnationEndsOldCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		n := startNode(t, func(ctx context.Context, call string) error {
			if call == "ListContainers " {
				return nil
			}
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		})
		old := make(chan error, 1)
		go func() { old <- n.client.StopContainer(t.Context(), "c1", 30) }()
		time.Sleep(10 * time.Second)
		again := n.dial(proto.Kubelet)
		defer again.Close()
		if _, err := runtimeapi.NewClient(again, clock.Clock{}).ListContainers(t.Context(), ""); err != nil {
			t.Error("new incarnation:", err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Error("the old call ended with", err)
			}
		default:
			t.Error("the old call goes on")
		}
		wantError(t, "old call", <-old, "rpc error: code = Canceled desc = context canceled")
		_, err := n.client.ContainerStatus(t.Context(), "c1")
		wantError(t, "a call of the old incarnation", err, "rpc error: code = Canceled desc = context canceled")
	})
}

// pair is a node bus, and a runtime and a kubelet on it.
func pair(t *testing.T) (server *bus.Server, runtime, kubelet *bus.Conn) {
	t.Helper()
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, server: server}
	return server, n.dial(proto.Runtime), n.dial(proto.Kubelet)
}

// A call that is cancelled, or whose deadline passes, before the runtime starts to serve, ends like
// any other, also if it has no deadline.
func TestGivenUpBeforeItIsMade(t *testing.T) {
	for name, row := range map[string]struct {
		call func(calling, ctx context.Context, client *runtimeapi.Client) error
		want string
	}{
		"given up": {func(calling, _ context.Context, client *runtimeapi.Client) error {
			_, err := client.PullImage(calling, "huge")
			return err
		}, "rpc error: code = Canceled desc = context canceled"},
		"unanswered": {func(_, ctx context.Context, client *runtimeapi.Client) error {
			return client.StopContainer(ctx, "c1", 30)
		}, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, runtime, kubelet := pair(t)
				defer server.Close()
				defer kubelet.Close()
				defer runtime.Close()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				client, ended, made := runtimeapi.NewClient(kubelet, clock.Clock{}), make(chan error, 1), make(chan error, 1)
				serving := runtimeapi.ServerConfig{Bus: runtime, Attributes: attributes, Log: slog.New(slog.DiscardHandler), Runtime: fake{do: func(ctx context.Context, _ string) error {
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute):
					}
					made <- ctx.Err()
					return ctx.Err()
				}}}
				serving.Ready = func() {
					calling, giveUp := context.WithCancel(ctx)
					go func() { ended <- row.call(calling, ctx, client) }()
					time.Sleep(5 * time.Minute) // more than a stop may take
					giveUp()
					synctest.Wait()
				}
				served := make(chan error, 1)
				go func() { served <- runtimeapi.Serve(ctx, serving) }()
				if err := <-made; !errors.Is(err, context.Canceled) {
					t.Errorf("the runtime has made it to its end: %v", err)
				}
				wantError(t, "the call", <-ended, row.want)
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// If the clock was set back between two starts of a caller, the second looks older. It is refused
// while the first is connected, and takes over when the first has left.
func TestClockSetBackBetweenIncarnations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		n := startNode(t, func(ctx context.Context, call string) error {
			if call == "StopContainer c1 30" {
				<-ctx.Done()
				ended <- ctx.Err()
			}
			return ctx.Err()
		})
		face, err := clock.NewSchedule(time.Now().Add(-time.Hour), 2)
		if err != nil {
			t.Fatal(err)
		}
		ahead := clock.NewDriver(face).Clock()
		old := make(chan error, 1)
		go func() { old <- runtimeapi.NewClient(n.kube, ahead).StopContainer(t.Context(), "c1", 30) }()
		synctest.Wait()
		again := n.dial(proto.Kubelet)
		defer again.Close()
		client := runtimeapi.NewClient(again, clock.Clock{})
		_, err = client.ContainerStatus(t.Context(), "c1")
		wantError(t, "while the first is there", err, "rpc error: code = Canceled desc = context canceled")
		n.kube.Close()
		synctest.Wait()
		if err := <-old; !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
			t.Errorf("the first's call: %v, want Unavailable", err)
		}
		if _, err := client.ContainerStatus(t.Context(), "c1"); err != nil {
			t.Error("when the first has gone:", err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Error("the first's call ended with", err)
			}
		default:
			t.Error("the first's call goes on")
		}
	})
}

// IsCallerWaiting is false once the connection of the caller is gone, without any message from it.
func TestIsCallerWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := make(chan bool, 2)
		n := startNode(t, func(ctx context.Context, _ string) error {
			for range 2 {
				time.Sleep(10 * time.Second)
				wanted <- runtimeapi.IsCallerWaiting(ctx)
			}
			return nil
		})
		failed := make(chan error, 1)
		go func() { failed <- n.client.StopContainer(t.Context(), "c1", 30) }()
		time.Sleep(15 * time.Second)
		n.kube.Close()
		if err := <-failed; !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
			t.Errorf("StopContainer: %v, want Unavailable", err)
		}
		if before, after := <-wanted, <-wanted; !before || after {
			t.Errorf("wanted %v while the caller is there and %v when it is gone", before, after)
		}
		n.kube = n.dial(proto.Kubelet)
	})
}

// A new incarnation gets no answer before the calls of the previous one have ended. It waits only
// once, for a second, for calls that do not end.
func TestNewIncarnationOutwaitsOldCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		defer close(hangs)
		started := false
		n := startNode(t, func(ctx context.Context, call string) error {
			switch call {
			case "StartContainer c1":
				<-ctx.Done()
				time.Sleep(300 * time.Millisecond) // it cannot be undone any more
				started = true
			case "StartContainer c2":
				<-hangs
			}
			return nil
		})
		list := func(client *runtimeapi.Client) (took time.Duration) {
			began := time.Now()
			if _, err := client.ListContainers(t.Context(), ""); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		var calling sync.WaitGroup
		defer calling.Wait()
		for _, id := range []string{"c1", "c2"} {
			calling.Go(func() {
				_ = n.client.StartContainer(t.Context(), id) // its caller has left
			})
			time.Sleep(time.Second)
			again := n.dial(proto.Kubelet)
			defer again.Close()
			n.client = runtimeapi.NewClient(again, clock.Clock{})
			took := list(n.client)
			if !started {
				t.Error("the new incarnation was told what runs, and another container started after that")
			}
			if id == "c2" && (took != time.Second || list(n.client) != 0) {
				t.Errorf("it waited for %v for a call that does not end, want a second, and no more after that", took)
			}
		}
	})
}
