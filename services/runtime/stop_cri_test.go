package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
)

const deadlineExceeded = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"

// waitKilledError is containerd's text for a container that does not die of SIGKILL (CRI-07).
func waitKilledError(id string) string {
	return fmt.Sprintf("an error occurs during waiting for container %q to be killed: wait container %q: context deadline exceeded", id, id)
}

// TestAWrongClockStopsInTime sets a node's clock wrong while it stops a container, and right again
// before or after the end. Neither the grace nor the kubelet's wait may change. A stop that reads
// the wrong clock may poll without pausing; then no time passes in the bubble and the test would
// hang. So a watcher outside of the bubble checks the wall clock.
func TestAWrongClockStopsInTime(t *testing.T) {
	for name, row := range map[string]struct{ ahead, lasts time.Duration }{
		"ahead for a while": {time.Hour, 10 * time.Second}, "ahead": {time.Hour, time.Minute},
		"behind for a while": {-time.Hour, 10 * time.Second}, "behind": {-time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			spins := time.AfterFunc(5*time.Minute, func() { panic("a stop on a wrong clock spins: no time passes") })
			defer spins.Stop()
			bubble(t, func(t *testing.T, n *node) {
				began := time.Now()
				schedule, err := clock.NewSchedule(began, 1)
				if err != nil {
					t.Fatal(err)
				}
				driver := clock.NewDriver(schedule)
				n.clock = driver.Clock()
				n.restart(0)
				_, id := n.runPod("ignores TERM")
				began = time.Now()
				stopped := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { stopped <- n.StopContainer(ctx, id, 30) }()
				time.Sleep(10 * time.Second)
				driver.SetSkew(clock.Skew{Since: n.clock.Steady(), Offset: row.ahead})
				time.AfterFunc(row.lasts, driver.ClearSkew)
				select {
				case err := <-stopped:
					wantError(t, "StopContainer", err, "")
				case <-time.After(10 * time.Minute): // the clock is right again by then
					driver.ClearSkew()
					t.Error("StopContainer has not returned in ten minutes")
				}
				if took := time.Since(began); took != 30*time.Second {
					t.Errorf("it took %v, want 30s", took)
				}
			})
		})
	}
}

// TestSnapshotUsesShownClock: the age of a signal stays right even if the clock was set wrong
// meanwhile, because unkillable processes are recognized by it.
func TestSnapshotUsesShownClock(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		schedule, err := clock.NewSchedule(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		driver := clock.NewDriver(schedule)
		n.clock = driver.Clock()
		driver.SetSkew(clock.Skew{Since: n.clock.Steady(), Offset: -time.Hour})
		n.restart(0)
		driver.ClearSkew()
		_, id := n.runPod("ignores TERM")
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- n.StopContainer(ctx, id, 30) }()
		time.Sleep(10 * time.Second)
		driver.SetSkew(clock.Skew{Since: n.clock.Steady(), Offset: 24 * time.Hour})
		time.Sleep(2 * time.Second)

		state := n.inspect(t.Context())
		container := state.Containers[0]
		ago := [3]time.Duration{state.Now.Sub(state.Began), state.Now.Sub(container.Started), state.Now.Sub(container.Signaled)}
		if state.ClockOffset != 24*time.Hour {
			t.Errorf("it says that its clock is %v ahead, want 24h", state.ClockOffset)
		}
		if want := [3]time.Duration{12 * time.Second, 12 * time.Second, 12 * time.Second}; ago != want || !container.Killed.IsZero() {
			t.Errorf("it began, its container did and was signaled %v ago, want %v; killed at %v", ago, want, container.Killed)
		}
		cancel()
		if err := <-stopped; err == nil {
			t.Error("a stop that was given up has succeeded")
		}
	})
}

// TestCRI02Idempotence is CRI-02: repeated stops and removals succeed.
func TestCRI02Idempotence(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		box, id := n.runPod("")
		for what, stop := range map[string]func(id string) error{
			"StopContainer":    func(id string) error { return n.StopContainer(ctx, id, 30) },
			"RemoveContainer":  func(id string) error { return n.RemoveContainer(ctx, id) },
			"StopPodSandbox":   func(id string) error { return n.StopPodSandbox(ctx, id) },
			"RemovePodSandbox": func(id string) error { return n.RemovePodSandbox(ctx, id) },
		} {
			wantError(t, what+" of what never was", stop("nothing"), "")
		}
		for range 3 {
			wantError(t, "StopContainer", n.StopContainer(ctx, id, 30), "")
		}
		for range 3 {
			wantError(t, "StopPodSandbox", n.StopPodSandbox(ctx, box.Id), "")
		}
		for range 3 {
			wantError(t, "RemoveContainer", n.RemoveContainer(ctx, id), "")
			wantError(t, "RemovePodSandbox", n.RemovePodSandbox(ctx, box.Id), "")
		}
		_, err := n.ContainerStatus(ctx, id)
		wantError(t, "ContainerStatus", err, fmt.Sprintf("rpc error: code = NotFound desc = container %q: not found", id))
		_, err = n.PodSandboxStatus(ctx, box.Id)
		wantError(t, "PodSandboxStatus", err, fmt.Sprintf("rpc error: code = NotFound desc = sandbox %q: not found", box.Id))
		wantError(t, "StartContainer", n.StartContainer(ctx, id),
			fmt.Sprintf("rpc error: code = NotFound desc = container %q: not found", id))
		_, err = n.ExecSync(ctx, &proto.ExecSyncRequest{ContainerId: id})
		wantError(t, "ExecSync", err, fmt.Sprintf("rpc error: code = NotFound desc = container %q: not found", id))
	})
}

// TestCRI03StopContainer checks single stops: how long each takes, how the container ends, and
// which signals it gets. CRI-11 and CRI-12 are the exit codes and reasons.
func TestCRI03StopContainer(t *testing.T) {
	for name, row := range map[string]struct {
		script  string
		timeout int64
		took    time.Duration
		code    int32
		reason  string
		signals string
	}{
		"CRI-03 the default script exits after 1s":  {"", 30, time.Second, 0, "Completed", "SIGTERM@0s"},
		"CRI-12 a handler that exits 0":             {"on TERM exits 0 after 2s", 30, 2 * time.Second, 0, "Completed", "SIGTERM@0s"},
		"CRI-12 the default disposition":            {"on TERM exits 143", 30, 0, 143, "Error", "SIGTERM@0s"},
		"CRI-03 TERM ignored, killed at the end":    {"ignores TERM", 5, 5 * time.Second, 137, "Error", "SIGTERM@0s SIGKILL@5s"},
		"CRI-12 too slow, killed at the end":        {"on TERM exits 0 after 1m", 5, 5 * time.Second, 137, "Error", "SIGTERM@0s SIGKILL@5s"},
		"CRI-03 done in the last instant":           {"on TERM exits 3 after 5s", 5, 5 * time.Second, 3, "Error", ""},
		"CRI-03 timeout 0 kills at once":            {"", 0, 0, 137, "Error", "SIGKILL@0s"},
		"CRI-03 a negative timeout kills at once":   {"", -5, 0, 137, "Error", "SIGKILL@0s"},
		"CRI-03 exits by itself while it is waited": {"ignores TERM, exits 7 after 3s", 30, 3 * time.Second, 7, "Error", "SIGTERM@0s"},
		"CRI-05 an OOM kill says so":                {"ignores TERM, OOM after 4s", 30, 4 * time.Second, 137, "OOMKilled", "SIGTERM@0s"},
		"CRI-07 dies a while after SIGKILL":         {"ignores TERM, survives KILL for 9s", 1, 10 * time.Second, 137, "Error", "SIGTERM@0s SIGKILL@1s"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				began := time.Now()
				_, id := n.runPod(row.script)
				took, err := timed(func() error { return n.StopContainer(t.Context(), id, row.timeout) })
				wantError(t, "StopContainer", err, "")
				wantTook(t, "StopContainer", took, row.took)
				n.wantExit(id, began, row.took, row.code, row.reason)
				// At the very instant at which a timeout ends, both are right.
				if got := n.signalHistory(id, began); row.signals != "" && got != row.signals {
					t.Errorf("signals %q, want %q", got, row.signals)
				}
			})
		})
	}
}

// TestCRI04Sandboxes is CRI-04: stopping a sandbox kills its containers and releases its address;
// removing it removes its containers.
func TestCRI04Sandboxes(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx, began := t.Context(), time.Now()
		box, id := n.runPod("ignores TERM")
		if box.State != proto.SandboxState_SANDBOX_STATE_READY || box.Ip != "10.1.2.2" {
			t.Errorf("sandbox is %v with %q, want READY with 10.1.2.2", box.State, box.Ip)
		}
		time.Sleep(time.Second)
		took, err := timed(func() error { return n.StopPodSandbox(ctx, box.Id) })
		wantError(t, "StopPodSandbox", err, "")
		wantTook(t, "StopPodSandbox", took, 0)
		n.wantExit(id, began, time.Second, 137, "Error")
		stopped, err := n.PodSandboxStatus(ctx, box.Id)
		if err != nil || stopped.State != proto.SandboxState_SANDBOX_STATE_NOTREADY {
			t.Errorf("sandbox is %v, %v, want NOTREADY", stopped, err)
		}
		_, err = n.CreateContainer(ctx, &proto.CreateContainerRequest{SandboxId: box.Id, Name: "late"})
		wantError(t, "CreateContainer", err, fmt.Sprintf("rpc error: code = Unknown desc = sandbox container %q is not running", box.Id))
		if got, want := n.signalHistory(id, began), "SIGKILL@1s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
		running := n.runSandbox("other")
		second := n.createContainer(running, "app", "")
		if err := n.StartContainer(ctx, second); err != nil {
			t.Fatal(err)
		}
		wantError(t, "RemovePodSandbox", n.RemovePodSandbox(ctx, running.Id), "")
		wantError(t, "RemovePodSandbox", n.RemovePodSandbox(ctx, box.Id), "")
		boxes, err := n.ListPodSandbox(ctx, "")
		containers, err2 := n.ListContainers(ctx, "")
		if len(boxes)+len(containers) != 0 || err != nil || err2 != nil {
			t.Errorf("left: %v %v (%v, %v)", boxes, containers, err, err2)
		}
	})
}

// TestAddresses: addresses are unique among live sandboxes, and can run out.
func TestAddresses(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		seen := map[string]*proto.Sandbox{}
		for i := range 253 {
			box := n.runSandbox(fmt.Sprint("p", i))
			if other, ok := seen[box.Ip]; ok || !strings.HasPrefix(box.Ip, "10.1.2.") {
				t.Fatalf("%s and %s both have %s", box.PodName, other.GetPodName(), box.Ip)
			}
			seen[box.Ip] = box
		}
		_, err := n.RunPodSandbox(t.Context(), &proto.RunPodSandboxRequest{PodUid: "one too many"})
		if err == nil || !strings.Contains(err.Error(), "no IP addresses available in range set: 10.1.2.0/24") {
			t.Error("the 254th sandbox:", err)
		}
		n.crash(0)
		if err := n.StopPodSandbox(t.Context(), seen["10.1.2.77"].Id); err != nil {
			t.Fatal(err)
		}
		if box := n.runSandbox("again"); box.Ip != "10.1.2.77" {
			t.Errorf("the next sandbox got %s, want the address that was released", box.Ip)
		}
	})
}

// TestCRI05States is CRI-05: a container's states, and the fields set in each.
func TestCRI05States(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx, began := t.Context(), time.Now()
		box := n.runSandbox("web")
		id := n.createContainer(box, "app", "starts after 10s, exits 4 after 20s")
		time.Sleep(time.Second)
		n.wantState(id, created)
		took, err := timed(func() error { return n.StartContainer(ctx, id) })
		wantError(t, "StartContainer", err, "")
		wantTook(t, "StartContainer", took, 10*time.Second)
		want := &proto.Container{
			Id: id, SandboxId: box.Id, Name: "app", Image: "busybox", State: running,
			CreatedAtUnixNano: began.UnixNano(), StartedAtUnixNano: began.Add(11 * time.Second).UnixNano(), StopSignal: "SIGTERM",
		}
		if got := n.status(id); got.String() != want.String() {
			t.Errorf("running:\n got %v\nwant %v", got, want)
		}
		time.Sleep(21 * time.Second)
		want.State, want.ExitCode, want.Reason = exited, 4, "Error"
		want.FinishedAtUnixNano = began.Add(31 * time.Second).UnixNano()
		if got := n.status(id); got.String() != want.String() {
			t.Errorf("exited:\n got %v\nwant %v", got, want)
		}
		wantError(t, "StartContainer again", n.StartContainer(ctx, id),
			"rpc error: code = Unknown desc = container is in CONTAINER_STATE_EXITED state")
	})
}

// TestCRI06StopHangs is CRI-06: a stop that hangs ends at the caller's deadline, and so does the
// next call.
func TestCRI06StopHangs(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		box, id := n.runPod("stop hangs")
		for range 2 {
			took, err := timed(func() error { return n.StopContainer(t.Context(), id, 30) })
			wantError(t, "StopContainer", err, deadlineExceeded)
			wantTook(t, "StopContainer", took, 150*time.Second)
		}
		took, err := timed(func() error { return n.StopPodSandbox(t.Context(), box.Id) })
		wantError(t, "StopPodSandbox", err, fmt.Sprintf(
			"rpc error: code = DeadlineExceeded desc = failed to stop container %q: context deadline exceeded", id))
		wantTook(t, "StopPodSandbox", took, 2*time.Minute)
		n.wantState(id, running)
		if got := n.signalHistory(id, began); got != "" {
			t.Errorf("signals %q, want none: none can reach it", got)
		}
	})
}

// TestCRI07SignalOnce is CRI-07: a second stop sends no second signal; it only waits again, then
// kills.
func TestCRI07SignalOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("ignores TERM")
		ctx, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(4*time.Second, giveUp)
		took, err := timed(func() error { return n.StopContainer(ctx, id, 30) })
		wantError(t, "first stop", err, "rpc error: code = Canceled desc = context canceled")
		wantTook(t, "first stop", took, 4*time.Second)
		time.Sleep(time.Hour) // it was given up: no SIGKILL
		n.wantState(id, running)
		took, err = timed(func() error { return n.StopContainer(t.Context(), id, 10) })
		wantError(t, "second stop", err, "")
		wantTook(t, "second stop", took, 10*time.Second)
		if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@1h0m14s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}

// TestCRI07NothingToStop is CRI-07: a container that never started, or has exited, is stopped
// already.
func TestCRI07NothingToStop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		box, id := n.runPod("exits 0 after 1s")
		idle := n.createContainer(box, "idle", "")
		time.Sleep(2 * time.Second)
		began := time.Now()
		for _, id := range []string{id, idle} {
			took, err := timed(func() error { return n.StopContainer(t.Context(), id, 30) })
			wantError(t, "StopContainer", err, "")
			wantTook(t, "StopContainer", took, 0)
		}
		n.wantState(idle, created)
		if got := n.signalHistory(id, began) + n.signalHistory(idle, began); got != "" {
			t.Errorf("signals %q, want none", got)
		}
	})
}

// TestCRI07CallerKilled is CRI-07: if the kubelet is killed, its stop sends no SIGKILL. The
// kubelet's next incarnation starts a new wait (TRC-20).
func TestCRI07CallerKilled(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("ignores TERM")
		failed := make(chan error, 1)
		go func() { failed <- n.StopContainer(t.Context(), id, 30) }()
		time.Sleep(10 * time.Second)
		n.kube.Close()
		if err := <-failed; !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
			t.Errorf("the call of the killed kubelet: %v, want Unavailable", err)
		}
		time.Sleep(time.Minute)
		n.kube = n.dial(proto.Kubelet)
		n.Client = runtimeapi.NewClient(n.kube, clock.Clock{})
		n.wantState(id, running)
		took, err := timed(func() error { return n.StopContainer(t.Context(), id, 30) })
		wantError(t, "stop by the next kubelet", err, "")
		wantTook(t, "stop by the next kubelet", took, 30*time.Second)
		if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@1m40s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}

// TestTRC20KubeletRestart is TRC-20: a kubelet that restarts at once starts a new wait too, and its
// old stop has ended.
func TestTRC20KubeletRestart(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("ignores TERM")
		failed := make(chan error, 1)
		go func() { failed <- n.StopContainer(t.Context(), id, 30) }()
		time.Sleep(10 * time.Second)
		n.kube.Close()
		if err := <-failed; !proto.IsRuntimeCode(err, proto.CodeUnavailable) {
			t.Errorf("the call of the killed kubelet: %v, want Unavailable", err)
		}
		n.kube = n.dial(proto.Kubelet)
		n.Client = runtimeapi.NewClient(n.kube, clock.Clock{})
		wantError(t, "stop by the next kubelet", n.StopContainer(t.Context(), id, 30), "")
		n.wantExit(id, began, 40*time.Second, 137, "Error")
		if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@40s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}

// TestCRI08Unkillable is CRI-08: one cycle of a kubelet with an unkillable process, then the
// process's end.
func TestCRI08Unkillable(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		box, id := n.runPod("ignores TERM, survives KILL for 300s")
		for _, grace := range []time.Duration{5 * time.Second} {
			took, err := timed(func() error { return n.StopContainer(t.Context(), id, int64(grace/time.Second)) })
			wantError(t, "StopContainer", err, "rpc error: code = DeadlineExceeded desc = "+waitKilledError(id))
			wantTook(t, "StopContainer", took, grace+2*time.Minute)
		}
		n.wantState(id, running)
		took, err := timed(func() error { return n.StopPodSandbox(t.Context(), box.Id) })
		wantError(t, "StopPodSandbox", err, fmt.Sprintf(
			"rpc error: code = DeadlineExceeded desc = failed to stop container %q: %s", id, waitKilledError(id)))
		wantTook(t, "StopPodSandbox", took, 2*time.Minute)
		time.Sleep(61 * time.Second)
		n.wantExit(id, began, 305*time.Second, 137, "Error")
		took, err = timed(func() error { return n.StopPodSandbox(t.Context(), box.Id) })
		wantError(t, "StopPodSandbox in the next cycle", err, "")
		wantTook(t, "StopPodSandbox in the next cycle", took, 0)
		if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@5s SIGKILL@2m5s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}

// TestCRI08NeverEnds is CRI-08 for a process that never ends.
func TestCRI08NeverEnds(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		_, id := n.runPod("ignores TERM, survives KILL")
		for range 3 {
			took, err := timed(func() error { return n.StopContainer(t.Context(), id, 30) })
			wantError(t, "StopContainer", err, "rpc error: code = DeadlineExceeded desc = "+waitKilledError(id))
			wantTook(t, "StopContainer", took, 150*time.Second)
		}
		n.wantState(id, running)
	})
}

// TestCRI09ConcurrentStops is CRI-09: of two concurrent stops the shorter one kills, and both end
// then.
func TestCRI09ConcurrentStops(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("ignores TERM")
		long := make(chan time.Duration, 1)
		go func() {
			took, err := timed(func() error { return n.StopContainer(t.Context(), id, 600) })
			wantError(t, "long stop", err, "")
			long <- took
		}()
		time.Sleep(3 * time.Second)
		took, err := timed(func() error { return n.StopContainer(t.Context(), id, 5) })
		wantError(t, "short stop", err, "")
		wantTook(t, "short stop", took, 5*time.Second)
		wantTook(t, "long stop", <-long, 8*time.Second)
		if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@8s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}

// TestCRI09ManyStops is CRI-09: many stops at the same instant send one SIGTERM, and each kills at
// most once.
func TestCRI09ManyStops(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, id := n.runPod("ignores TERM")
		done := make(chan error, 50)
		for i := range 50 {
			go func() { done <- n.StopContainer(t.Context(), id, int64(10+i)) }()
		}
		for range 50 {
			wantError(t, "StopContainer", <-done, "")
		}
		if got, want := n.signalHistory(id, began), "SIGTERM@0s SIGKILL@10s"; got != want {
			t.Errorf("signals %q, want %q", got, want)
		}
	})
}
