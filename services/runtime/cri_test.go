package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
)

// TestCRI10Teardown is CRI-10: if the network cannot be torn down, each stop of the sandbox fails,
// but its containers are dead and it is NOTREADY.
func TestCRI10Teardown(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		box, err := n.RunPodSandbox(t.Context(), &proto.RunPodSandboxRequest{
			PodUid: "u", Annotations: map[string]string{runtime.AnnotationTeardown: "fails for 30s"},
		})
		if err != nil {
			t.Fatal(err)
		}
		id := n.createContainer(box, "app", "")
		if err := n.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := n.StopPodSandbox(t.Context(), box.Id)
			if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf(
				"rpc error: code = Unknown desc = failed to destroy network for sandbox %q: ", box.Id)) {
				t.Error("StopPodSandbox:", err)
			}
			n.wantState(id, exited)
			stopped, err := n.PodSandboxStatus(t.Context(), box.Id)
			if err != nil || stopped.State != proto.SandboxState_SANDBOX_STATE_NOTREADY {
				t.Errorf("sandbox is %v, %v, want NOTREADY", stopped, err)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(10 * time.Second)
		wantError(t, "StopPodSandbox after the fault", n.StopPodSandbox(t.Context(), box.Id), "")
	})
}

// TestCRI11StartError is CRI-11: a container that cannot be started is EXITED 128 StartError.
func TestCRI11StartError(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		id := n.createContainer(n.runSandbox("web"), "app", "starts after 3s, fails to start")
		took, err := timed(func() error { return n.StartContainer(t.Context(), id) })
		wantError(t, "StartContainer", err,
			"rpc error: code = Unknown desc = failed to start container: the script says that it fails to start")
		wantTook(t, "StartContainer", took, 3*time.Second)
		n.wantExit(id, began, 3*time.Second, 128, "StartError")
		if c := n.status(id); c.StartedAtUnixNano != 0 {
			t.Error("it started at", c.StartedAtUnixNano)
		}
	})
}

// TestBadScript: creating a container with an invalid script fails and names the clause.
func TestBadScript(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		box := n.runSandbox("web")
		req := &proto.CreateContainerRequest{SandboxId: box.Id, Name: "app", Script: "ignores TERM, exits 999"}
		_, err := n.CreateContainer(t.Context(), req)
		wantError(t, "CreateContainer", err, `rpc error: code = InvalidArgument desc = container "app": `+
			`script clause "exits 999": exit code "999": want 0 to 255`)
		req.Script = "ignores TERM" // its name was not kept
		_, err = n.CreateContainer(t.Context(), req)
		wantError(t, "CreateContainer", err, "")
	})
}

// TestCRI14NamesAndLabels is CRI-14: labels and annotations are returned unchanged. Names include
// the uid and the attempt, and are unique.
func TestCRI14NamesAndLabels(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		labels := map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.container.name": "app"}
		notes := map[string]string{"io.kubernetes.container.restartCount": "3"}
		box := func(uid string, attempt uint32) (*proto.Sandbox, error) {
			return n.RunPodSandbox(ctx, &proto.RunPodSandboxRequest{
				PodName: "web", PodNamespace: "default", PodUid: uid, Attempt: attempt, Labels: labels, Annotations: notes,
			})
		}
		first, err := box("old", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := box("new", 0); err != nil {
			t.Error("another uid under the same name:", err)
		}
		if _, err := box("old", 1); err != nil {
			t.Error("another attempt:", err)
		}
		_, err = box("old", 0)
		wantError(t, "the same sandbox again", err, fmt.Sprintf("rpc error: code = Unknown desc = "+
			"failed to reserve sandbox name %[1]q: name %[1]q is reserved for %[2]q", "web_default_old_0", first.Id))
		req := &proto.CreateContainerRequest{SandboxId: first.Id, Name: "app", Labels: labels, Annotations: notes}
		id, err := n.CreateContainer(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.CreateContainer(ctx, req)
		wantError(t, "the same container again", err, fmt.Sprintf("rpc error: code = Unknown desc = "+
			"failed to reserve container name %[1]q: name %[1]q is reserved for %[2]q", "app_web_default_old_0", id))
		req.Attempt = 1
		if _, err := n.CreateContainer(ctx, req); err != nil {
			t.Error("another attempt:", err)
		}
		n.crash(0)
		got := n.status(id)
		if diff := cmp.Diff(labels, got.Labels) + cmp.Diff(notes, got.Annotations); diff != "" {
			t.Error("the container's (-want +got):", diff)
		}
		containers, err := n.ListContainers(ctx, "old")
		if err != nil || len(containers) != 2 || containers[0].Id != id || containers[1].Attempt != 1 {
			t.Errorf("containers of the old uid: %v, %v", containers, err)
		}
		boxes, err := n.ListPodSandbox(ctx, "new")
		if err != nil || len(boxes) != 1 || boxes[0].PodUid != "new" || boxes[0].Labels["io.kubernetes.pod.name"] != "web" {
			t.Errorf("sandboxes of the new uid: %v, %v", boxes, err)
		}
		_, err = box("old", 0)
		if err == nil {
			t.Error("names are forgotten by a restart")
		}
	})
}

// TestCRI15Restart is CRI-15: containers outlive the runtime. Open calls return Unavailable. A stop
// continues, and sends no second SIGTERM.
func TestCRI15Restart(t *testing.T) {
	for name, restart := range map[string]func(*node, time.Duration){"restart": (*node).restart, "crash": (*node).crash} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				began := time.Now()
				_, id := n.runPod("ignores TERM")
				pending := make(chan error, 1)
				go func(rt runtimeapi.Runtime) { pending <- rt.StopContainer(t.Context(), id, 30) }(n.Client)
				time.Sleep(10 * time.Second)
				restart(n, 20*time.Second)
				if err := <-pending; !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
					t.Errorf("the call that was open: %v, want Unavailable", err)
				}
				time.Sleep(time.Minute)
				n.wantState(id, running)
				wantError(t, "StopContainer", n.StopContainer(t.Context(), id, 30), "")
				n.wantExit(id, began, 2*time.Minute, 137, "Error")
				if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@2m0s"; got != want {
					t.Errorf("signals %q, want %q", got, want)
				}
			})
		})
	}
}

// TestCRI15ExitWhileAway is CRI-15: a container that exits while its runtime is down has the time
// of its exit.
func TestCRI15ExitWhileAway(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("exits 5 after 30s")
		time.Sleep(10 * time.Second)
		n.crash(time.Minute)
		n.wantExit(id, began, 30*time.Second, 5, "Error")
		n.restart(0)
		n.wantExit(id, began, 30*time.Second, 5, "Error")
		if got, want := n.eventHistory(id, began), "create@0s start@0s exit@30s"; got != want {
			t.Errorf("history %q, want %q", got, want)
		}
	})
}

// TestCRI16RemoveRunning is CRI-16: removing a running container kills it first, and removes its
// logs.
func TestCRI16RemoveRunning(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx, began := t.Context(), time.Now()
		_, id := n.runPod("ignores TERM")
		log, err := n.ContainerLogs(ctx, &proto.ContainerLogsRequest{ContainerId: id})
		if err != nil || string(log) != "started\n" {
			t.Errorf("logs %q, %v", log, err)
		}
		wantError(t, "RemoveContainer", n.RemoveContainer(ctx, id), "")
		_, err = n.ContainerLogs(ctx, &proto.ContainerLogsRequest{ContainerId: id})
		if !proto.IsRuntimeCode(err, proto.CodeNotFound) {
			t.Errorf("logs of a removed container: %v, want NotFound", err)
		}
		if got, want := n.eventHistory(id, began), "create@0s start@0s signal@0s exit@0s remove@0s"; got != want {
			t.Errorf("history %q, want %q", got, want)
		}
	})
}

// TestCRI16RemoveUnkillable is CRI-16: a container that cannot be killed cannot be removed.
func TestCRI16RemoveUnkillable(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		_, id := n.runPod("survives KILL")
		took, err := timed(func() error { return n.RemoveContainer(t.Context(), id) })
		wantError(t, "RemoveContainer", err, fmt.Sprintf(
			"rpc error: code = DeadlineExceeded desc = failed to forcibly stop container %q: %s", id, waitKilledError(id)))
		wantTook(t, "RemoveContainer", took, 2*time.Minute)
		n.wantState(id, running)
	})
}

// TestStopDuringStart stops a sandbox while a start is under way: nothing runs in it afterwards.
func TestStopDuringStart(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		box := n.runSandbox("web")
		id := n.createContainer(box, "app", "starts after 20s")
		started := make(chan error, 1)
		go func() { started <- n.StartContainer(t.Context(), id) }()
		time.Sleep(5 * time.Second)
		wantError(t, "StopContainer", n.StopContainer(t.Context(), id, 30), "") // CRI-07: it does not run
		n.wantState(id, created)
		wantError(t, "StopPodSandbox", n.StopPodSandbox(t.Context(), box.Id), "")
		wantError(t, "StartContainer", <-started,
			"rpc error: code = Unknown desc = failed to start container: killed before it had started")
		time.Sleep(time.Minute)
		n.wantExit(id, began, 5*time.Second, 128, "StartError")
	})
}

// TestStartOutlivesCaller: a start goes on if its caller gives up, and a repeated call waits for
// the same start.
func TestStartOutlivesCaller(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		id := n.createContainer(n.runSandbox("web"), "app", "starts after 20s")
		impatient, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		wantError(t, "StartContainer", n.StartContainer(impatient, id), "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		took, err := timed(func() error { return n.StartContainer(t.Context(), id) })
		wantError(t, "StartContainer again", err, "")
		wantTook(t, "StartContainer again", took, 15*time.Second)
		n.wantState(id, running)
		wantError(t, "StartContainer of what runs", n.StartContainer(t.Context(), id),
			"rpc error: code = Unknown desc = container is in CONTAINER_STATE_RUNNING state")
	})
}

// TestStartDuringStop: once a sandbox is being stopped, nothing more starts in it.
func TestStartDuringStop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		box, _ := n.runPod("ignores TERM, survives KILL for 10s")
		late := n.createContainer(box, "late", "")
		stopped := make(chan error, 1)
		go func() { stopped <- n.StopPodSandbox(t.Context(), box.Id) }()
		time.Sleep(5 * time.Second)
		wantError(t, "StartContainer", n.StartContainer(t.Context(), late),
			fmt.Sprintf("rpc error: code = Unknown desc = sandbox container %q is not running", box.Id))
		wantError(t, "StopPodSandbox", <-stopped, "")
		n.wantState(late, created)
	})
}

// TestExecSync: ExecSync of a scripted container succeeds and writes nothing, if the container is
// running.
func TestExecSync(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		_, id := n.runPod("exits 0 after 10s")
		req := &proto.ExecSyncRequest{ContainerId: id, Command: []string{"sh", "-c", "true"}}
		got, err := n.ExecSync(t.Context(), req)
		if err != nil || got.ExitCode != 0 || len(got.Stdout)+len(got.Stderr) != 0 {
			t.Errorf("ExecSync: %v, %v", got, err)
		}
		time.Sleep(11 * time.Second)
		_, err = n.ExecSync(t.Context(), req)
		wantError(t, "ExecSync in a dead container", err,
			fmt.Sprintf("rpc error: code = Unknown desc = failed to exec in container %q: it is not running", id))
	})
}

// A command that runs in a container ends with it, as if killed: a kubelet tells of a preStop hook that
// has outlived the grace (R11).
func TestExecSyncEndsWithItsContainer(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		_, id := n.runPod("exits 0 after 10s, exec exits 0 after 5m")
		began := time.Now()
		got, err := n.ExecSync(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{"true"}})
		if took := time.Since(began); err != nil || got.ExitCode != 137 || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("ExecSync: %v, %v after %v", got, err, took)
		}
	})
}

// TestContainerLogs checks the logs of a scripted container, and the options that select from them.
func TestContainerLogs(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("on TERM exits 3 after 2s")
		time.Sleep(10 * time.Second)
		wantError(t, "StopContainer", n.StopContainer(t.Context(), id, 30), "")
		n.crash(time.Second)
		for want, req := range map[string]*proto.ContainerLogsRequest{
			"started\ngot TERM\nexits 3\n": {},
			"got TERM\nexits 3\n":          {TailLines: 2},
			"exits 3\n":                    {SinceUnixNano: began.Add(11 * time.Second).UnixNano()},
			began.UTC().Add(12*time.Second).Format(time.RFC3339Nano) + " exits 3\n": {TailLines: 1, Timestamps: true},
		} {
			req.ContainerId = id
			got, err := n.ContainerLogs(t.Context(), req)
			if err != nil || string(got) != want {
				t.Errorf("logs %v: %q, %v, want %q", req, got, err, want)
			}
		}
	})
}
