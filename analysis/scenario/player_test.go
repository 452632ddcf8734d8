package scenario_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/analysis/scenario"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// fakeCluster is a cluster of one pod that takes two seconds to terminate, unless a fault is
// injected.
type fakeCluster struct {
	mu      sync.Mutex
	pod     *corev1.Pod
	uid     int
	broken  bool
	deleted time.Time
	sent    []history.Event
}

const lifetime = 2 * time.Second

func (w *fakeCluster) finishDeletion() {
	if w.pod != nil && !w.deleted.IsZero() && !w.broken && time.Since(w.deleted) >= lifetime {
		w.pod, w.deleted = nil, time.Time{}
	}
}

func (w *fakeCluster) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finishDeletion()
	if w.pod == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	return w.pod.DeepCopy(), nil
}

func (w *fakeCluster) Patch(_ context.Context, _ podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod = &corev1.Pod{}
	w.uid++
	err := yaml.Unmarshal(patch, w.pod)
	w.pod.UID = types.UID(rune('a' + w.uid))
	return w.pod, err
}

func (w *fakeCluster) Delete(_ context.Context, t podapi.Target, _ metav1.DeleteOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finishDeletion(); w.pod == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	w.deleted = time.Now()
	w.pod.DeletionTimestamp = &metav1.Time{Time: w.deleted}
	for i, signal := range []string{"SIGTERM", "SIGKILL"} {
		w.sent = append(w.sent, history.Event{Wall: w.deleted.Add(time.Duration(i) * lifetime), Fact: history.Signal{Signal: signal}})
	}
	return w.pod, nil
}

func (w *fakeCluster) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{Items: []kinds.Object{&corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web"}, Reason: "Killing", Message: "Stopping container main",
	}}}, nil
}

func (w *fakeCluster) CreateRaw(context.Context, podapi.Target, string, []byte, metav1.CreateOptions) (kinds.Object, error) {
	return nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
}

func (w *fakeCluster) Break(context.Context, scenario.Break) error { return w.set(true) }
func (w *fakeCluster) Mend(context.Context, scenario.Mend) error   { return w.set(false) }

func (w *fakeCluster) set(broken bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = broken
	return nil
}

func (w *fakeCluster) Why(context.Context, podapi.Target) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken && !w.deleted.IsZero() {
		return []string{"stk-06"}, nil
	}
	return nil, nil
}

func (w *fakeCluster) CountRunning(context.Context, types.UID) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finishDeletion(); w.pod == nil {
		return 0, nil
	}
	return 1, nil
}

func (w *fakeCluster) Signals(context.Context, types.UID) ([]history.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, nil
}

var errWrong = errors.New("not as told")

const beginning = `
scenario: toy
title: A pod
about: It goes.
steps:
- apply: '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}'
- remember: {pod/web: first}
- expect: {object: pod/web, uid: first, why: [], like: {metadata: {deletionTimestamp: null}}}
- break: {cut: {parties: [node-1]}}
- delete: {object: pod/web}
`

func runScenario(t *testing.T, steps string, harmless bool) scenario.Report {
	t.Helper()
	story, err := scenario.Parse([]byte(beginning + steps))
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	report := scenario.Run(t.Context(), story, scenario.Config{
		Cluster: &fakeCluster{}, Harmless: harmless, Clock: clock.Clock{}, OnStep: func(int, scenario.Step) { events++ },
	})
	if events != len(report.Steps) {
		t.Errorf("told of %d steps, played %d", events, len(report.Steps))
	}
	return report
}

func TestPlay(t *testing.T) {
	const stuck = `- expect: {object: pod/web, uid: first, stays: 1m, shows: {STATUS: Terminating}, why: [stk-06], event: {reason: Killing, message: main}}
`
	for name, row := range map[string]struct {
		steps    string
		harmless bool
		want     string
	}{
		"stuck and mended":    {stuck + "- mend: {heal: [node-1]}\n- expect: {object: pod/web, gone: true, within: 5s}\n", false, ""},
		"without the fault":   {stuck, true, `why names [], want ["stk-06"]`},
		"harm in a step":      {"- {breaks: true, evict: {object: pod/web}}\n- expect: {object: pod/web, gone: true}\n", true, ""},
		"another manifest":    {"- apply: '{\"metadata\": {\"name\": \"bad\"}}'\n  unbroken: '{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"good\"}}'\n- expect: {object: pod/web, like: {metadata: {name: good}}}\n", true, ""},
		"never mended":        {"- expect: {object: pod/web, gone: true, within: 5s}\n", false, "after 5s: pod/web is still there"},
		"not for so long":     {"- mend: {heal: [node-1]}\n- expect: {object: pod/web, uid: first, stays: 3s}\n", false, "it was so, but not for 3s: after 2"},
		"refused":             {"- evict: {object: pod/web, refused: disruption budget}\n", false, ""},
		"refused otherwise":   {"- evict: {object: pod/web, refused: not allowed}\n", false, `want "not allowed" in it`},
		"not refused":         {"- delete: {object: pod/web, refused: not now}\n", false, `it was done, want it refused with "not now"`},
		"no such event":       {"- expect: {object: pod/web, within: 1s, event: {reason: Killing, message: sidecar}}\n", false, `no event Killing "sidecar"; it has ["Killing: Stopping container main"]`},
		"another one":         {"- expect: {object: pod/web, within: 1s, uid: '!first'}\n", false, "is the one that was called first, want another"},
		"an unknown name":     {"- expect: {object: pod/web, within: 1s, uid: second}\n", false, `"second": no step has remembered that`},
		"signals":             {"- expect: {node: {pod: first, alive: 1, signals: [SIGTERM, SIGKILL], killedAfter: {from: 2s, to: 3s}}}\n", false, ""},
		"other signals":       {"- expect: {node: {pod: first, signals: [SIGTERM]}, within: 1s}\n", false, "was sent [SIGTERM SIGKILL], want [SIGTERM]"},
		"killed late":         {"- expect: {node: {pod: first, killedAfter: {from: 0s, to: 1s}}, within: 1s}\n", false, "was killed after 2s, want 0s to 1s"},
		"still alive":         {"- expect: {node: {pod: first, alive: 0}, within: 1s}\n", false, "1 containers of first run, want 0"},
		"a column unheard of": {"- expect: {object: pod/web, within: 1s, shows: {COLOUR: red}}\n", false, "has no column COLOUR"},
	} {
		synctest.Test(t, func(t *testing.T) {
			report := runScenario(t, row.steps, row.harmless)
			if got := report.Err; (row.want == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), row.want) {
				t.Errorf("%s: %v, want %q", name, got, row.want)
			}
		})
	}
}

// TestLate accepts delays up to Late, and no longer ones.
func TestLate(t *testing.T) {
	const steps = "- mend: {heal: [node-1]}\n- expect: {object: pod/web, gone: true, within: 1s}\n" +
		"- expect: {node: {pod: first, killedAfter: {from: 0s, to: 1s}}}\n"
	story, err := scenario.Parse([]byte(beginning + steps))
	if err != nil {
		t.Fatal(err)
	}
	for late, wrong := range map[time.Duration]bool{0: true, 500 * time.Millisecond: true, lifetime: false} {
		for _, speed := range []float64{1, 8} { // Late is wall time, whatever the speed
			synctest.Test(t, func(t *testing.T) {
				schedule, err := clock.NewSchedule(time.Now(), speed)
				if err != nil {
					t.Fatal(err)
				}
				cfg := scenario.Config{Cluster: &fakeCluster{}, Clock: clock.NewDriver(schedule).Clock(), Late: late}
				if report := scenario.Run(t.Context(), story, cfg); wrong != (report.Err != nil) {
					t.Errorf("late by %v at speed %v: %v", late, speed, report.Err)
				}
			})
		}
	}
}

// stallingCluster gives wrong answers to the fifth and some more queries, as if the machine had
// stalled meanwhile.
type stallingCluster struct {
	*fakeCluster
	asked, wrong int
}

func (h *stallingCluster) Why(ctx context.Context, t podapi.Target) ([]string, error) {
	if h.asked++; h.asked >= 5 && h.asked < 5+h.wrong {
		return nil, nil
	}
	return h.fakeCluster.Why(ctx, t)
}

// TestLateRecheck accepts one wrong check of a lasting expectation, and only on a machine that may
// be late.
func TestLateRecheck(t *testing.T) {
	story, err := scenario.Parse([]byte(beginning + "- expect: {object: pod/web, stays: 1m, why: [stk-06]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		late  time.Duration
		wrong int
		holds bool
	}{{0, 0, true}, {0, 1, false}, {time.Second, 1, true}, {time.Second, 2, false}} {
		synctest.Test(t, func(t *testing.T) {
			cfg := scenario.Config{Cluster: &stallingCluster{fakeCluster: &fakeCluster{}, wrong: row.wrong}, Clock: clock.Clock{}, Late: row.late}
			if report := scenario.Run(t.Context(), story, cfg); row.holds != (report.Err == nil) {
				t.Errorf("%d wrong answers on a machine that is late by %v: %v", row.wrong, row.late, report.Err)
			}
		})
	}
}

func TestJUnit(t *testing.T) {
	good := scenario.Scenario{Name: "stk-01", Title: "A finalizer & more"}
	data, err := scenario.JUnit([]scenario.Report{
		{Scenario: good, Took: 1500 * time.Millisecond}, {Scenario: good, Err: errors.Join(errWrong, errWrong)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<testsuite name="podfall" tests="2" failures="1" time="1.500">`, `name="stk-01: A finalizer &amp; more"`,
		`<failure message="not as told">not as told&#xA;not as told</failure>`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s\nlacks %s", data, want)
		}
	}
}
