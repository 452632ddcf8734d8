package podworker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/task"
	"github.com/podfall/podfall/proto"
)

// Two sidecars wait for the main container, the first for the second as well; each uses up
// the grace of those behind it (KBL-50), and one that could not be stopped keeps them
// waiting (KBL-52).
func TestAttempt(t *testing.T) {
	plan := StopPlan{
		Containers: []ContainerStop{
			{ID: "1", Name: "main", Grace: 10, PreStop: &corev1.LifecycleHandler{}},
			{ID: "2", Name: "s1", Grace: 10, After: []string{"main", "s2"}},
			{ID: "3", Name: "s2", Grace: 10, After: []string{"main"}},
			{ID: "4", Name: "stray", Err: errors.New("not in the spec")},
		},
		Sandboxes: []string{"b1", "b0"},
	}
	type move struct {
		at      time.Duration
		outcome Outcome
		want    []Work
	}
	await := func(container int) Work { return AwaitTurn{container, zero.Add(10 * time.Second)} }
	for name, story := range map[string]struct {
		moves []move
		err   string
	}{
		"one after the other": {[]move{
			{0, nil, []Work{RunHook{0}, await(1), await(2)}},
			{2500 * time.Millisecond, HookEnded{0}, []Work{StopContainer{0, "1", 8}}},
			{4 * time.Second, ContainerStopped{0, nil}, []Work{StopContainer{2, "3", 6}}},
			{5 * time.Second, ContainerStopped{2, nil}, []Work{StopContainer{1, "2", 5}}},
			{10 * time.Second, TurnTimedOut{1}, nil},
			{11 * time.Second, ContainerStopped{1, nil}, []Work{StopSandbox{"b1"}}},
			{11 * time.Second, SandboxStopped{nil}, []Work{StopSandbox{"b0"}}},
			{11 * time.Second, SandboxStopped{nil}, nil},
		}, `failed to "KillContainer" for "stray" with KillContainerError: "not in the spec"`},
		"one that cannot be stopped": {[]move{
			{0, nil, []Work{RunHook{0}, await(1), await(2)}},
			{time.Second, HookEnded{0}, []Work{StopContainer{0, "1", 9}}},
			{9 * time.Second, ContainerStopped{0, errors.New("it hangs")}, nil},
			{10 * time.Second, TurnTimedOut{1}, []Work{StopContainer{1, "2", 2}}},
			{10 * time.Second, TurnTimedOut{2}, []Work{StopContainer{2, "3", 2}}},
			{11 * time.Second, ContainerStopped{1, nil}, nil},
			{11 * time.Second, ContainerStopped{2, nil}, []Work{StopSandbox{"b1"}}},
			{12 * time.Second, SandboxStopped{errors.New("no network")}, []Work{StopSandbox{"b0"}}},
			{12 * time.Second, SandboxStopped{nil}, nil},
		}, `[failed to "KillContainer" for "main" with KillContainerError: "it hangs", ` +
			`failed to "KillContainer" for "stray" with KillContainerError: "not in the spec", ` +
			`failed to "KillPodSandbox" for "u" with KillPodSandboxError: "no network"]`},
	} {
		t.Run(name, func(t *testing.T) {
			var a *Attempt
			for _, m := range story.moves {
				if a == nil {
					a = NewAttempt(plan, zero)
				} else if a.Over() {
					t.Fatalf("it is over before %+v", m.outcome)
				} else {
					a.Step(m.outcome, zero.Add(m.at))
				}
				if diff := cmp.Diff(m.want, a.Work()); diff != "" {
					t.Errorf("after %+v at %v (-want +got):\n%s", m.outcome, m.at, diff)
				}
			}
			if got := fmt.Sprint(a.Err("u")); !a.Over() || got != story.err {
				t.Errorf("it is over: %t, with\n%s\nwant\n%s", a.Over(), got, story.err)
			}
		})
	}
}

// The sandbox is stopped after a container that could not be, unless the runtime is away:
// the next one must not begin with SIGKILL.
func TestAttemptWithoutRuntime(t *testing.T) {
	plan := StopPlan{Containers: []ContainerStop{{ID: "1", Name: "a", Grace: 5}}, Sandboxes: []string{"b"}}
	for refused, want := range map[proto.RuntimeError][]Work{
		{Code: proto.CodeUnknown}:                            {StopSandbox{"b"}},
		{Code: proto.CodeDeadlineExceeded}:                   {StopSandbox{"b"}},
		{Code: proto.CodeDeadlineExceeded, Unanswered: true}: nil,
		{Code: proto.CodeUnavailable}:                        nil,
	} {
		a := NewAttempt(plan, zero)
		a.Work()
		a.Step(ContainerStopped{0, &refused}, zero)
		if diff := cmp.Diff(want, a.Work()); diff != "" || a.Over() != (want == nil) || a.Err("u") == nil {
			t.Errorf("after %+v it is over: %t, with %v, and wants (-want +got):\n%s", refused, a.Over(), a.Err("u"), diff)
		}
	}
}

func TestAttemptOfEmptyPlan(t *testing.T) {
	if a := NewAttempt(StopPlan{}, zero); !a.Over() || len(a.Work()) > 0 || a.Err("u") != nil {
		t.Errorf("an attempt at nothing is %+v", a)
	}
}

// TestWorkByTheSteadyClock: since when a step lasts and an attempt fails is noted by a clock that
// nobody sets wrong.
func TestWorkByTheSteadyClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		face, err := clock.NewSchedule(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		movement := clock.NewDriver(face)
		now := movement.Clock().Steady()
		movement.SetSkew(clock.Skew{Since: now, Offset: -time.Hour})
		w := newWorker(Config{Driver: Driver{Clock: movement.Clock()}}, task.Goroutines{}.Group())
		w.setStep("stop pod")
		w.recordResult(errors.New("no answer"))
		if !w.Since.Equal(now) || !w.FailingSince.Equal(now) {
			t.Errorf("the step is since %v and the failure since %v, want %v", w.Since, w.FailingSince, now)
		}
	})
}
