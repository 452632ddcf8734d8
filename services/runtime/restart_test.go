package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/store"
)

// podSteps returns the steps of two pods' lifecycles.
func podSteps(n *node, ids map[string]string) []func() {
	ctx := n.t.Context()
	must := func(err error) {
		n.t.Helper()
		if err != nil {
			n.t.Error(err)
		}
	}
	box := func(pod string) func() { return func() { ids[pod] = n.runSandbox(pod).Id } }
	create := func(pod, name, script string) func() {
		return func() { ids[name] = n.createContainer(&proto.Sandbox{Id: ids[pod]}, name, script) }
	}
	start := func(name string) func() { return func() { must(n.StartContainer(ctx, ids[name])) } }
	wait := func(d time.Duration) func() { return func() { time.Sleep(d) } }
	return []func(){
		box("web"),
		create("web", "polite", "on TERM exits 3 after 2s"),
		create("web", "deaf", "ignores TERM"),
		box("batch"),
		create("batch", "job", "starts after 3s, exits 5 after 1m"),
		create("batch", "broken", "fails to start"),
		create("batch", "idle", ""),
		start("polite"),
		start("deaf"),
		start("job"),
		func() {
			if n.StartContainer(ctx, ids["broken"]) == nil {
				n.t.Error("the broken container started")
			}
		},
		wait(10 * time.Second),
		func() { must(n.StopContainer(ctx, ids["polite"], 30)) },
		func() { must(n.StopContainer(ctx, ids["deaf"], 5)) },
		wait(50 * time.Second), // the job ends
		func() { must(n.StopPodSandbox(ctx, ids["web"])) },
		func() { must(n.RemoveContainer(ctx, ids["polite"])) },
		func() { must(n.RemoveContainer(ctx, ids["idle"])) },
		func() { must(n.RemovePodSandbox(ctx, ids["web"])) },
		wait(time.Second),
	}
}

// snapshotView is all that a kubelet can see.
type snapshotView struct {
	Sandboxes  []*proto.Sandbox
	Containers []*proto.Container
}

func takeSnapshot(n *node) snapshotView {
	n.t.Helper()
	boxes, err := n.ListPodSandbox(n.t.Context(), "")
	containers, err2 := n.ListContainers(n.t.Context(), "")
	if err != nil || err2 != nil {
		n.t.Fatal(err, err2)
	}
	return snapshotView{boxes, containers}
}

// runSteps runs the steps and calls between after each. It returns what is visible after each step.
func runSteps(n *node, between func(step int)) []snapshotView {
	var seen []snapshotView
	for i, step := range podSteps(n, map[string]string{}) {
		step()
		between(i)
		seen = append(seen, takeSnapshot(n))
	}
	return seen
}

// TestCRI15KilledAfterAnyStep is CRI-15: a runtime that is killed after any step, or after each
// step, looks like one that was never killed.
func TestCRI15KilledAfterAnyStep(t *testing.T) {
	byID := cmp.Options{protocmp.Transform(), cmp.Transformer("byID", func(v snapshotView) map[string]any {
		all := map[string]any{}
		for _, box := range v.Sandboxes {
			all[box.Id] = box
		}
		for _, c := range v.Containers {
			all[c.Id] = c
		}
		return all
	})}
	var want []snapshotView
	bubble(t, func(_ *testing.T, n *node) { want = runSteps(n, func(int) {}) })
	if len(want[len(want)-1].Containers) != 2 {
		t.Fatalf("the story ends with %v", want[len(want)-1])
	}
	kills := map[string]func(step int) bool{"killed after every step": func(int) bool { return true }}
	for at := range want {
		kills[fmt.Sprint("killed after step ", at)] = func(step int) bool { return step == at }
	}
	for name, kill := range kills {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				got := runSteps(n, func(step int) {
					if kill(step) {
						n.crash(0)
					}
				})
				for step := range want {
					if diff := cmp.Diff(want[step], got[step], byID); diff != "" {
						t.Fatalf("after step %d (-without +with):\n%s", step, diff)
					}
				}
			})
		})
	}
}

// writeRecords puts records on disk as a killed runtime could have left them.
func writeRecords(t *testing.T, dir string, ops ...store.Op) {
	t.Helper()
	s, _, err := store.Open(store.Config{Path: filepath.Join(dir, runtime.File), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	err = s.Commit(ops...)
	cancel()
	if err := errors.Join(err, <-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
}

func must(op store.Op, err error) store.Op {
	if err != nil {
		panic(err)
	}
	return op
}

// TestCRI15KilledDuringStopPodSandbox kills the runtime between the start of a container and the
// end of its sandbox's stop. After the restart the container is killed, because nothing runs in a
// stopped sandbox.
func TestCRI15KilledDuringStopPodSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, dir: t.TempDir()}
		began := time.Now()
		box := &proto.Sandbox{Id: "box", PodUid: "u", State: proto.SandboxState_SANDBOX_STATE_NOTREADY}
		req := &proto.CreateContainerRequest{SandboxId: "box", Name: "app", Script: "ignores TERM"}
		writeRecords(t, n.dir, must(store.PutSandbox(box)),
			must(store.PutContainer(store.Container{ID: "c", Created: began, Request: req})), store.PutStart("c", began))
		time.Sleep(10 * time.Second)
		n.start()
		defer func() { n.stop() }()
		synctest.Wait()
		n.wantExit("c", began, 10*time.Second, 137, "Error")
	})
}

// TestCRI15KilledDuringRemovePodSandbox kills the runtime between creating a container and the
// answer, while the sandbox was being removed. The container was never acknowledged, and is
// deleted.
func TestCRI15KilledDuringRemovePodSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{t: t, dir: t.TempDir()}
		req := &proto.CreateContainerRequest{SandboxId: "gone", Name: "app"}
		writeRecords(t, n.dir, must(store.PutContainer(store.Container{ID: "c", Created: time.Now(), Request: req})))
		n.start()
		defer func() { n.stop() }()
		if seen := takeSnapshot(n); len(seen.Containers)+len(seen.Sandboxes) != 0 {
			t.Errorf("there is %v", seen)
		}
	})
}

// TestRunRefusesDamage: a runtime does not start on damaged records.
func TestRunRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, runtime.File), []byte("not a store"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := runtime.Run(t.Context(), runtime.Config{DataDir: dir})
	if _, ok := errors.AsType[*store.DamageError](err); !ok {
		t.Errorf("run: %v, want a DamageError", err)
	}
	err = runtime.Run(t.Context(), runtime.Config{DataDir: t.TempDir(), PodCIDR: "10.0.0.0/31"})
	if err == nil || !strings.Contains(err.Error(), `pod CIDR "10.0.0.0/31": no room for a pod`) {
		t.Errorf("run without room for a pod: %v", err)
	}
}

// TestRestoredContainersAreRecorded crashes a runtime with a running, a never started and an exited
// container. The next one records the running container and its start time.
func TestRestoredContainersAreRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		dir := t.TempDir()
		record := func() *history.Recorder {
			recorder, err := history.Open(history.Config{Dir: dir, Process: "runtime/n", Boot: proto.NewBoot(time.Now(), [4]byte{})})
			if err != nil {
				t.Fatal(err)
			}
			return recorder
		}
		box := n.runSandbox("web")
		n.createContainer(box, "idle", "")
		over, runs := n.createContainer(box, "over", "exits 0 after 1s"), n.createContainer(box, "runs", "ignores TERM")
		for _, id := range []string{over, runs} {
			if err := n.StartContainer(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		started := time.Now()
		time.Sleep(10 * time.Second)
		n.recorder = record()
		defer n.recorder.Close()
		n.crash(time.Minute)
		log, err := history.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		var recorded []history.Recover
		for _, e := range log.Events {
			if fact, ok := e.Fact.(history.Recover); ok {
				recorded = append(recorded, fact)
			}
		}
		want := []history.Recover{{ContainerRef: history.ContainerRef{Pod: "default/web", UID: "uid-web", Container: runs, ContainerName: "runs"}, Started: started, Scripted: true}}
		if diff := cmp.Diff(want, recorded); diff != "" {
			t.Errorf("recorded when it began again (-want +got)\n%s", diff)
		}
	})
}
