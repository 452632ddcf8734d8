package runtimeapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

// A clock that was set back between two starts of a caller makes the second look older.
// It is refused as long as the first is there, and takes over when that has gone.
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
		ahead, err := clock.At(time.Now().Add(-time.Hour), 2)
		if err != nil {
			t.Fatal(err)
		}
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

// StillWanted is false once the connection of the caller is gone, without a word from it.
func TestStillWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := make(chan bool, 2)
		n := startNode(t, func(ctx context.Context, _ string) error {
			for range 2 {
				time.Sleep(10 * time.Second)
				wanted <- runtimeapi.StillWanted(ctx)
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
