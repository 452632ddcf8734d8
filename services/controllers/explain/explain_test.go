package explain

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestIsDue(t *testing.T) {
	pod := func(deadline time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now.Add(deadline)}}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		said LastReport
		want bool
	}{
		"not deleted":   {&corev1.Pod{}, LastReport{}, false},
		"in its grace":  {pod(time.Minute), LastReport{}, false},
		"just over":     {pod(-5 * time.Second), LastReport{}, false},
		"overdue":       {pod(-11 * time.Second), LastReport{}, true},
		"looked at":     {pod(-time.Minute), LastReport{CheckedAt: now.Add(-5 * time.Second)}, false},
		"looked before": {pod(-time.Minute), LastReport{CheckedAt: now.Add(-15 * time.Second)}, true},
	} {
		if got := IsDue(c.pod, c.said, now, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestNextReport(t *testing.T) {
	names, texts := []string{"node-cut-off"}, []string{"cut"}
	first, last := NextReport(names, texts, LastReport{}, now)
	if first != "Still terminating: cut; see podfall why" {
		t.Errorf("said %q", first)
	}
	for name, c := range map[string]struct {
		names []string
		at    time.Time
		says  bool
	}{
		"the same, soon":      {names, now.Add(time.Minute), false},
		"the same, later":     {names, now.Add(6 * time.Minute), true},
		"another, soon":       {[]string{"kubelet-down"}, now.Add(time.Minute), true},
		"nothing":             {nil, now.Add(time.Hour), false},
		"the same, at a time": {names, now, false},
	} {
		if got, _ := NextReport(c.names, texts, last, c.at); (got != "") != c.says {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestPodRemoved watches pods that have left the API, unless their node has said that they ended.
// The pod garbage collector fails pods of unreachable nodes, and a container between two runs
// starts again.
func TestPodRemoved(t *testing.T) {
	state := func(running bool) []corev1.ContainerStatus {
		if running {
			return []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}
		return []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	}
	backsOff := []corev1.ContainerStatus{{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: state(false)[0].State,
	}}
	said := func(reason string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: reason}}
	}
	for name, c := range map[string]struct {
		node     string
		status   corev1.PodStatus
		followed bool
	}{
		"runs":                          {"n1", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: state(true)}, true},
		"completed":                     {"n1", corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: state(false), Conditions: said("PodCompleted")}, false},
		"failed":                        {"n1", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: state(false), Conditions: said("PodFailed")}, false},
		"failed by others":              {"n1", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: state(true), Conditions: said("PodFailed")}, true},
		"failed, and a sidecar runs":    {"n1", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: state(false), InitContainerStatuses: state(true), Conditions: said("PodFailed")}, true},
		"failed before it was reported": {"n1", corev1.PodStatus{Phase: corev1.PodFailed}, true},
		"failed while it backs off":     {"n1", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: backsOff, Conditions: said("ContainersNotReady")}, true},
		"failed before it starts again": {"n1", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: state(false), Conditions: said("ContainersNotReady")}, true},
		"without a node":                {"", corev1.PodStatus{Phase: corev1.PodPending}, false},
	} {
		r := &Rounds{Record: func(history.Fact) {}}
		r.Observer.Ask = func(context.Context, string, any) error { return nil }
		r.PodRemoved(&corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node}, Status: c.status})
		if r.HasUnknownPods(nil) != c.followed {
			t.Errorf("%s: followed is %v", name, r.HasUnknownPods(nil))
		}
	}
}

// TestRestarts runs a container of a removed pod again after a break, as a kubelet does that missed
// the removal. The pod stays unknown, and a second window begins with the second run. It ends when
// the node keeps nothing of the pod.
func TestRestarts(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	runtime := func(containers ...inspect.Times) *inspect.Runtime {
		said := &inspect.Runtime{}
		for _, c := range containers {
			said.Containers = append(said.Containers, inspect.Container{UID: "old", Alive: c.Exited.IsZero(), Times: c})
		}
		return said
	}
	first, sidecar := inspect.Times{Started: at(-9), Exited: at(2)}, inspect.Times{Started: at(20), Exited: at(23)}
	g, younger := &unknownPod{identity: "default/web-0", uid: "old"}, map[string]runtimeState{"new": {uid: "new", alive: true, runningSince: at(1)}}
	g.addSuccessor("new", "n2")
	windows := func(begin int, end *time.Time) []history.Window {
		return []history.Window{{Identity: "default/web-0", UIDs: []string{"old", "new"}, Begin: at(begin), End: end}}
	}
	for i, step := range []struct {
		said *inspect.Runtime
		now  time.Time
		want []history.Window
		over bool
	}{
		{runtime(inspect.Times{Started: at(-9)}), at(1), windows(1, nil), false},
		{runtime(first), at(3), windows(1, new(at(2))), false},
		{runtime(first), at(10), nil, false},
		{runtime(first, sidecar, inspect.Times{Started: at(22)}), at(24), windows(20, nil), false},
		{runtime(), at(30), windows(20, new(at(30))), true},
	} {
		recorded, over := g.updateWindows(newRuntimeState(step.said, "old"), younger, step.now)
		if diff := cmp.Diff(step.want, recorded); diff != "" || over != step.over {
			t.Errorf("step %d: over %v\n%s", i, over, diff)
		}
	}
}

// TestMayStart keeps an unknown pod if its kubelet knows it, may not have seen it yet, or does not
// answer.
func TestMayStart(t *testing.T) {
	for said, want := range map[string]bool{
		`{"pods":[{"uid":"old"}],"heard":"10"}`: true, `{"pods":[{"uid":"new"}],"heard":"10"}`: false,
		`{"heard":"9"}`: true, `{"heard":"11"}`: false, `{}`: true, "": true,
	} {
		r := &Rounds{}
		r.Observer.Ask = gather.JSON(func(context.Context, string) ([]byte, error) { return []byte(said), nil })
		if got := r.mayStart(t.Context(), &unknownPod{uid: "old", revision: "10"}, answers{}); got != want {
			t.Errorf("its kubelet says %q: %v, want %v", said, got, want)
		}
	}
}

// TestWindow opens a window for each successor that starts. A window closes when the first of both
// pods ends, and stays unchanged while one cannot be seen.
func TestWindow(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	g := &unknownPod{identity: "default/web-0", uid: "old"}
	g.addSuccessor("old", "n1")
	g.addSuccessor("new", "n2")
	g.addSuccessor("unbound", "")
	g.addSuccessor("third", "n3")
	window := func(uid string, begin int, end *time.Time) history.Window {
		return history.Window{Identity: "default/web-0", UIDs: []string{"old", uid}, Begin: at(begin), End: end}
	}
	old := runtimeState{uid: "old", alive: true, runningSince: at(-100)}
	second, third := runtimeState{uid: "new", alive: true, runningSince: at(3)}, runtimeState{uid: "third", alive: true, runningSince: at(6)}
	steps := []struct {
		older   runtimeState
		younger []runtimeState
		now     time.Time
		want    []history.Window
		over    bool
	}{
		{old, nil, at(0), nil, false},
		{old, []runtimeState{second}, at(4), []history.Window{window("new", 3, nil)}, false},
		{old, []runtimeState{second}, at(5), nil, false},
		{old, []runtimeState{third}, at(7), []history.Window{window("third", 6, nil)}, false}, // the second's runtime does not answer
		{old, []runtimeState{{uid: "new", runningSince: at(3), lastExit: at(8)}, third}, at(9), []history.Window{window("new", 3, new(at(8)))}, false},
		{runtimeState{uid: "old", runningSince: at(-100), lastExit: at(9)}, nil, at(10), []history.Window{window("third", 6, new(at(9)))}, true},
	}
	for i, s := range steps {
		younger := map[string]runtimeState{}
		for _, l := range s.younger {
			younger[l.uid] = l
		}
		recorded, over := g.updateWindows(s.older, younger, s.now)
		if diff := cmp.Diff(s.want, recorded); diff != "" || over != s.over {
			t.Errorf("step %d: over %v, (-want +got)\n%s", i, over, diff)
		}
	}
}

// TestSilentNode has ten pods leave a node that does not answer. The node is asked once in a round,
// and the successors are still recorded.
func TestSilentNode(t *testing.T) {
	counts := map[string]int{}
	r := &Rounds{Record: func(history.Fact) {}}
	r.Observer.Ask = func(_ context.Context, process string, _ any) error {
		counts[process]++
		return errors.New("no answer")
	}
	for i := range 10 {
		r.PodRemoved(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("old-", i))}, Spec: corev1.PodSpec{NodeName: "n1"}})
	}
	r.CheckUnknownPods(t.Context(), Views{
		Pod: func(string, string) (*corev1.Pod, bool) {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "new"}, Spec: corev1.PodSpec{NodeName: "n2"}}, true
		},
		Nodes: func() []string { return nil },
	})
	if counts["runtime/n1"] != 1 {
		t.Errorf("asked %v", counts)
	}
	for _, g := range r.unknown {
		if len(g.successors) != 1 {
			t.Errorf("%s is followed by %v", g.identity, g.successors)
		}
	}
}

// TestShortSuccessor has a pod come and go between two rounds: it is still a successor.
func TestShortSuccessor(t *testing.T) {
	r := &Rounds{Record: func(history.Fact) {}}
	r.Observer.Ask = func(context.Context, string, any) error { return errors.New("no answer") }
	for _, left := range [][2]string{{"web-0", "first"}, {"web-1", "other"}, {"web-0", "second"}} {
		r.PodRemoved(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: left[0], UID: types.UID(left[1])}, Spec: corev1.PodSpec{NodeName: "n1"}})
	}
	for i, want := range []string{"second", "", ""} {
		var got string
		for _, s := range r.unknown[i].successors {
			got += s.uid
		}
		if got != want {
			t.Errorf("%s is followed by %q, want %q", r.unknown[i].uid, got, want)
		}
	}
}

// TestUnseenBreak ends and restarts the younger pod between two checks: that makes two windows. A
// pod that has been alive all the time has one window, whatever other containers ended.
func TestUnseenBreak(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	windows := func(begin int, end *time.Time) history.Window {
		return history.Window{Identity: "default/web-0", UIDs: []string{"old", "new"}, Begin: at(begin), End: end}
	}
	first := runtimeState{uid: "new", alive: true, runningSince: at(1)}
	again := runtimeState{uid: "new", alive: true, runningSince: at(4), lastExit: at(3)}
	for name, c := range map[string]struct {
		seen, then runtimeState
		want       []history.Window
	}{
		"a break":                {first, runtimeState{uid: "new", alive: true, runningSince: at(30), lastExit: at(20)}, []history.Window{windows(1, new(at(20))), windows(30, nil)}},
		"ended before the look":  {again, again, nil},
		"another has ended":      {first, runtimeState{uid: "new", alive: true, runningSince: at(1), lastExit: at(20)}, nil},
		"its first is forgotten": {first, runtimeState{uid: "new", alive: true, runningSince: at(4)}, nil},
	} {
		g, old := &unknownPod{identity: "default/web-0", uid: "old"}, runtimeState{uid: "old", alive: true, runningSince: at(-9)}
		g.addSuccessor("new", "n2")
		g.updateWindows(old, map[string]runtimeState{"new": c.seen}, at(5))
		recorded, _ := g.updateWindows(old, map[string]runtimeState{"new": c.then}, at(40))
		if diff := cmp.Diff(c.want, recorded); diff != "" {
			t.Errorf("%s\n%s", name, diff)
		}
	}
}

// TestWindowWithWrongClock checks with a clock that is an hour behind. A pod that runs on after its
// init container was not interrupted, and a window ends when its runtime says so. The runtime's
// clock may have been set back as well.
func TestWindowWithWrongClock(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	g := &unknownPod{identity: "default/web-0", uid: "old"}
	g.addSuccessor("new", "n2")
	window := history.Window{Identity: "default/web-0", UIDs: []string{"old", "new"}, Begin: at(3)}
	ended := window
	ended.End = new(at(6))
	for i, want := range [][]history.Window{{window}, nil, {ended}} {
		old := runtimeState{uid: "old", alive: true, runningSince: at(2), lastExit: at(1)}
		if i == 2 {
			old.alive, old.lastExit = false, at(6)
		}
		recorded, _ := g.updateWindows(old, map[string]runtimeState{"new": {uid: "new", alive: true, runningSince: at(3)}}, at(4+i-3600))
		if diff := cmp.Diff(want, recorded); diff != "" {
			t.Errorf("step %d: (-want +got)\n%s", i, diff)
		}
	}
}
