package explain

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// onePod is an API with one pod, or none.
type onePod struct{ pod atomic.Pointer[corev1.Pod] }

func (a *onePod) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	if pod := a.pod.Load(); pod != nil && target.Kind.GroupResource().String() == "pods" {
		return pod, nil
	}
	return nil, apierrors.NewNotFound(target.Kind.GroupResource(), target.Name)
}

func (a *onePod) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{}, nil
}

// TestSilentProcesses reports nothing while no process answers, and all causes when one does.
func TestSilentProcesses(t *testing.T) {
	api := &onePod{}
	api.pod.Store(stuckPod())
	recorded, text, silent := 0, "", true
	r := &Rounds{
		Observer: gather.Observer{API: api, Ask: func(context.Context, string, any) error {
			if silent {
				return errors.New("no answer")
			}
			return nil
		}},
		Event: func(_ *corev1.Pod, said string) { text = said }, Record: func(history.Fact) { recorded++ }, Log: slog.New(slog.DiscardHandler),
	}
	for _, silent = range []bool{true, false} {
		r.Explain(t.Context(), []*corev1.Pod{stuckPod()})
		if (recorded == 0) != silent {
			t.Errorf("all are silent: %t, and %d causes were told", silent, recorded)
		}
	}
	const want = "Still terminating: STK-01 finalizer-not-removed: a finalizer is still set, and no client has tried to remove it (who acts: the controller that set the finalizer); see podfall why"
	if text != want {
		t.Errorf("the event says %q, want %q", text, want)
	}
}

// stuckPod is a pod that its node has stopped, and that a finalizer keeps.
func stuckPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "u", Finalizers: []string{"example.com/backup"},
			DeletionTimestamp: &metav1.Time{Time: time.Now().Add(-time.Hour)}, DeletionGracePeriodSeconds: new(int64(0)),
		},
		Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodFailed},
	}
}

// TestRemovedWhileAsking reports nothing about a pod that leaves while processes are asked about
// it.
func TestRemovedWhileAsking(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		pod, api := stuckPod(), &onePod{}
		api.pod.Store(pod)
		recorded := 0
		r := &Rounds{
			Observer: gather.Observer{API: api, Ask: func(_ context.Context, process string, _ any) error {
				if leaves {
					api.pod.Store(nil)
				}
				if process == "apiserver" {
					return nil
				}
				return errors.New("it takes its time")
			}},
			Event: func(*corev1.Pod, string) {}, Record: func(history.Fact) { recorded++ }, Log: slog.New(slog.DiscardHandler),
		}
		r.Explain(t.Context(), []*corev1.Pod{pod})
		if (recorded == 0) != leaves {
			t.Errorf("it leaves: %v, and %d causes were told", leaves, recorded)
		}
	}
}

// TestRepeatWithWrongClock repeats a report when its time has come and not a day later, whatever
// the clock shows.
func TestRepeatWithWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		face, err := clock.NewSchedule(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		movement, api := clock.NewDriver(face), &onePod{}
		api.pod.Store(stuckPod())
		recorded := 0
		r := &Rounds{
			Observer: gather.Observer{API: api, Ask: func(context.Context, string, any) error { return nil }, Clock: movement.Clock()},
			Event:    func(*corev1.Pod, string) { recorded++ }, Log: slog.New(slog.DiscardHandler),
		}
		for i, ahead := range []time.Duration{24 * time.Hour, 0, -30 * time.Minute} {
			movement.SetSkew(clock.Skew{Since: movement.Clock().Steady(), Offset: ahead})
			r.Explain(t.Context(), []*corev1.Pod{stuckPod()})
			if recorded != i+1 {
				t.Errorf("by a clock that is %v ahead: told %d times, want %d", ahead, recorded, i+1)
			}
			time.Sleep(6 * time.Minute)
		}
	})
}

// TestRuntimeClockOffset shifts times of a runtime with a wrong clock to cluster time.
func TestRuntimeClockOffset(t *testing.T) {
	began, ended := now, now.Add(time.Minute)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		said := &inspect.Runtime{ClockOffset: ahead, Containers: []inspect.Container{
			{UID: "u", Times: inspect.Times{Started: began.Add(ahead), Exited: ended.Add(ahead)}},
			{UID: "u", Alive: true, Times: inspect.Times{Started: ended.Add(ahead)}},
		}}
		if got, want := newRuntimeState(said, "u"), (runtimeState{uid: "u", kept: true, alive: true, runningSince: began, lastExit: ended}); got != want {
			t.Errorf("a clock that is %v ahead: %+v, want %+v", ahead, got, want)
		}
		if got := listIncarnations(said, nil)[0].began; !got.Equal(began) {
			t.Errorf("a clock that is %v ahead: it began at %v, want %v", ahead, got, began)
		}
	}
}
