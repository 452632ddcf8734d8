package runtime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podfall/podfall/proto"
)

// steps is the life of two pods, one step at a time.
func steps(n *node, ids map[string]string) []func() {
	ctx := n.t.Context()
	must := func(err error) {
		n.t.Helper()
		if err != nil {
			n.t.Error(err)
		}
	}
	box := func(pod string) func() { return func() { ids[pod] = n.sandbox(pod).Id } }
	create := func(pod, name, script string) func() {
		return func() { ids[name] = n.create(&proto.Sandbox{Id: ids[pod]}, name, script) }
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

// view is all that a kubelet can see.
type view struct {
	Sandboxes  []*proto.Sandbox
	Containers []*proto.Container
}

func look(n *node) view {
	n.t.Helper()
	boxes, err := n.ListPodSandbox(n.t.Context(), "")
	containers, err2 := n.ListContainers(n.t.Context(), "")
	if err != nil || err2 != nil {
		n.t.Fatal(err, err2)
	}
	return view{boxes, containers}
}

// live goes through the steps, calling between after each, and returns what could be
// seen after each.
func live(n *node, between func(step int)) []view {
	var seen []view
	for i, step := range steps(n, map[string]string{}) {
		step()
		between(i)
		seen = append(seen, look(n))
	}
	return seen
}

// CRI-15: a runtime that is killed after any step, or after each of them, is seen as one
// that never was.
func TestCRI15KilledAfterAnyStep(t *testing.T) {
	byID := cmp.Options{protocmp.Transform(), cmp.Transformer("byID", func(v view) map[string]any {
		all := map[string]any{}
		for _, box := range v.Sandboxes {
			all[box.Id] = box
		}
		for _, c := range v.Containers {
			all[c.Id] = c
		}
		return all
	})}
	var want []view
	bubble(t, func(_ *testing.T, n *node) { want = live(n, func(int) {}) })
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
				got := live(n, func(step int) {
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
