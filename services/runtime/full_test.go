//go:build unix

package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/store/storetest"
)

// TestFullDisk: on a full disk each call that needs the disk fails with the disk's reason and has
// no effect, so it can be repeated when there is space. After a kill the runtime has everything
// that it acknowledged.
func TestFullDisk(t *testing.T) {
	if !storetest.InOwnProcess(t) {
		return
	}
	bubble(t, func(t *testing.T, n *node) {
		box, ctx := n.runSandbox("web"), t.Context()
		id := n.createContainer(box, "app", "on TERM exits 0 after 1s")
		twice := func(what string, call func() error) {
			t.Helper()
			free := storetest.FullDisk(t, 0)
			for range 2 {
				err := call()
				if !proto.IsRuntimeCode(err, proto.CodeUnknown) || !strings.Contains(err.Error(), "file too large") {
					t.Errorf("%s on a full disk: %v, want Unknown and the reason", what, err)
				}
			}
			free()
			if err := call(); err != nil {
				t.Errorf("%s, when there is space: %v", what, err)
			}
		}
		twice("RunPodSandbox", func() error {
			_, err := n.RunPodSandbox(ctx, &proto.RunPodSandboxRequest{PodName: "b", PodNamespace: "default", PodUid: "b"})
			return err
		})
		twice("CreateContainer", func() error {
			_, err := n.CreateContainer(ctx, &proto.CreateContainerRequest{SandboxId: box.Id, Name: "b", Image: "busybox"})
			return err
		})
		twice("StartContainer", func() error { return n.StartContainer(ctx, id) })
		n.crash(time.Second)
		n.wantState(id, running)
		began := time.Now()
		twice("StopContainer", func() error { return n.StopContainer(ctx, id, 30) })
		n.wantExit(id, began, time.Second, 0, "Completed")
		twice("RemoveContainer", func() error { return n.RemoveContainer(ctx, id) })
		twice("StopPodSandbox", func() error { return n.StopPodSandbox(ctx, box.Id) })
		twice("RemovePodSandbox", func() error { return n.RemovePodSandbox(ctx, box.Id) })
		n.crash(time.Second)
		wantCounts(ctx, t, n, 1, 0)
	})
}

// TestFullDiskRemoval: after a failed removal the container can still be started.
func TestFullDiskRemoval(t *testing.T) {
	if !storetest.InOwnProcess(t) {
		return
	}
	bubble(t, func(t *testing.T, n *node) {
		id := n.createContainer(n.runSandbox("web"), "app", "ignores TERM")
		free := storetest.FullDisk(t, 0)
		if err := n.RemoveContainer(t.Context(), id); err == nil {
			t.Error("RemoveContainer, on a full disk, is answered")
		}
		free()
		if err := n.StartContainer(t.Context(), id); err != nil {
			t.Error(err)
		}
		n.wantState(id, running)
	})
}

// TestFullDiskKill: SIGKILL must be on record before it is sent, and a caller may retry after a
// failed record.
func TestFullDiskKill(t *testing.T) {
	if !storetest.InOwnProcess(t) {
		return
	}
	bubble(t, func(t *testing.T, n *node) {
		_, id := n.runPod("ignores TERM")
		free := storetest.FullDisk(t, 0)
		for range 2 {
			if err := n.RemoveContainer(t.Context(), id); err == nil {
				t.Error("RemoveContainer of a container that runs, on a full disk, is answered")
			}
		}
		n.wantState(id, running)
		free()
		if err := n.RemoveContainer(t.Context(), id); err != nil {
			t.Error(err)
		}
		n.crash(time.Second)
		wantCounts(t.Context(), t, n, 1, 0)
	})
}

// wantCounts compares the numbers of sandboxes and containers.
func wantCounts(ctx context.Context, t *testing.T, n *node, sandboxes, containers int) {
	t.Helper()
	boxes, err := n.ListPodSandbox(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := n.ListContainers(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(boxes) != sandboxes || len(all) != containers {
		t.Errorf("it holds %d sandboxes and %d containers, want %d and %d", len(boxes), len(all), sandboxes, containers)
	}
}
