package pleg

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

const (
	created = proto.ContainerState_CONTAINER_STATE_CREATED
	running = proto.ContainerState_CONTAINER_STATE_RUNNING
	exited  = proto.ContainerState_CONTAINER_STATE_EXITED
)

func viewOf(states ...proto.ContainerState) podstate.Pod {
	var containers []*proto.Container
	for i, state := range states {
		containers = append(containers, &proto.Container{Id: string(rune('a' + i)), Name: "c", Attempt: uint32(i), State: state})
	}
	return podstate.New("u", nil, containers)
}

func TestDiffers(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after podstate.Pod
		want          bool
	}{
		{"CRI-13 started", viewOf(created), viewOf(running), true},
		{"CRI-13 died", viewOf(running), viewOf(exited), true},
		{"CRI-13 a new one", viewOf(exited), viewOf(exited, running), true},
		{"CRI-13 removed after its end", viewOf(exited), viewOf(), false},
		{"CRI-13 vanished while it ran", viewOf(running), viewOf(), true},
		{"CRI-13 the same", viewOf(exited, running), viewOf(exited, running), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Differs(row.before, row.after); got != row.want {
				t.Errorf("Differs = %t, want %t", got, row.want)
			}
		})
	}
}

// slowRuntime is a runtime with one container, whose answers take time or fail.
type slowRuntime struct {
	mu    sync.Mutex
	state proto.ContainerState
	takes time.Duration
	err   error
}

// set changes what it answers from now on.
func (s *slowRuntime) set(state proto.ContainerState, takes time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.takes, s.err = state, takes, err
}

func (s *slowRuntime) ListPodSandbox(context.Context, string) ([]*proto.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, s.err
}

func (s *slowRuntime) ListContainers(context.Context, string) ([]*proto.Container, error) {
	s.mu.Lock()
	takes, err := s.takes, s.err
	answer := []*proto.Container{{Id: "a", Name: "c", State: s.state, Labels: map[string]string{podstate.LabelPodUID: "u"}}}
	s.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	return answer, err
}

// runRelister runs a relister over a runtime in a bubble.
func runRelister(t *testing.T, rt *slowRuntime, story func(ctx context.Context, r *Relister)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := New(rt, clock.Clock{}, Timing{Period: time.Second, Threshold: 3 * time.Minute, Down: 30 * time.Second}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		story(ctx, r)
		cancel()
		<-done //nolint:errcheck // the context's
	})
}

func TestAnOldAnswerIsThrownAway(t *testing.T) {
	rt := &slowRuntime{state: running}
	runRelister(t, rt, func(ctx context.Context, r *Relister) {
		r.Take()
		rt.set(running, 700*time.Millisecond, nil)
		time.Sleep(1200 * time.Millisecond) // a listing is under way that saw it run
		rt.set(exited, 0, nil)
		if _, err := r.Read(ctx, "u", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond)
		if pod, _ := r.Last("u"); len(pod.Running()) > 0 {
			t.Error("a listing that was begun before a look has undone it")
		}
		if got := r.Take(); len(got) > 0 {
			t.Errorf("what the asker knows is told as news: %v", got)
		}
	})
}

func TestNewerThan(t *testing.T) {
	rt := &slowRuntime{state: running}
	runRelister(t, rt, func(ctx context.Context, r *Relister) {
		time.Sleep(2500 * time.Millisecond)
		begun := time.Now()
		rt.set(exited, 0, nil)
		pod, err := r.NewerThan(ctx, "u", begun)
		if err != nil || len(pod.Running()) > 0 || time.Since(begun) != 500*time.Millisecond {
			t.Errorf("KBL-20: after %v it has %v, %v", time.Since(begun), pod.Running(), err)
		}
		if got := r.Take(); !slices.Equal(got, []types.UID{"u"}) {
			t.Errorf("news of %v, want of u", got)
		}
	})
}

func TestProblems(t *testing.T) {
	rt := &slowRuntime{state: running}
	runRelister(t, rt, func(_ context.Context, r *Relister) {
		if got := r.Problems(); len(got) > 0 {
			t.Errorf("at once it has %v", got)
		}
		rt.set(running, 0, &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "away"})
		time.Sleep(29 * time.Second)
		if got := r.Problems(); len(got) > 0 {
			t.Errorf("after 29 s it has %v", got)
		}
		time.Sleep(3 * time.Second)
		if got := r.Problems(); !slices.Equal(got, []string{"container runtime is down"}) {
			t.Errorf("after 32 s it has %v", got)
		}
		rt.set(running, 0, nil)
		time.Sleep(time.Second + time.Millisecond)
		rt.set(running, time.Hour, nil)
		time.Sleep(3*time.Minute + 5*time.Second)
		if got := r.Problems(); len(got) != 1 || got[0] != "PLEG is not healthy: pleg was last seen active 3m5.001s ago; threshold is 3m0s" {
			t.Errorf("KBL-07: after 3 min it has %q", got)
		}
	})
}
