package shutdown

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
)

func pod(name string, priority int32, grace int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: &grace}}
}

// TestPlan: levels by priority, lowest first; a pod below all of them is of the lowest; a
// grace is the pod's own, if that is less.
func TestPlan(t *testing.T) {
	const s = time.Second
	pods := []*corev1.Pod{pod("critical", 2_000_000_000, 5), pod("usual", 0, 60), pod("below", -10, 5), pod("between", 1000, 5), pod("above", 2_000_001_000, 60)}
	for name, c := range map[string]struct {
		levels []Level
		want   []string
	}{
		"two":        {Levels(30*s, 10*s), []string{"usual 20 below 5 between 5", "critical 5 above 10"}},
		"none spare": {Levels(10*s, 10*s), []string{"usual 0 below 0 between 0", "critical 5 above 10"}},
		"three":      {[]Level{{2_000_000_000, 10 * s}, {1000, 3 * s}, {0, 20 * s}}, []string{"usual 20 below 5", "between 3", "critical 5 above 10"}},
	} {
		var got []string
		for _, batch := range Plan(pods, c.levels) {
			text := ""
			for _, p := range batch.Pods {
				text += fmt.Sprintf(" %s %d", p.Name, batch.grace(p))
			}
			got = append(got, text[1:])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// fakeNode is a kubelet whose pods end after as many seconds as their names say, and a recorder.
type fakeNode struct {
	began time.Time
	pods  []*corev1.Pod

	mu   sync.Mutex
	told []string
}

func (n *fakeNode) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, fmt.Sprintf("%v ", time.Since(n.began))+fmt.Sprintf(format, args...))
}

func (n *fakeNode) ActivePods() []*corev1.Pod { return n.pods }

func (n *fakeNode) NodeChanged() { n.say("changed") }

func (n *fakeNode) EndPod(ctx context.Context, pod *corev1.Pod, grace int64) error {
	n.say("end %s within %d", pod.Name, grace)
	takes, _ := time.ParseDuration(pod.Name)
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestShutdown: the next batch begins when the one before has ended, or when its time is up;
// a shutdown that is called off and asked for again ends what is there then.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{began: time.Now(), pods: []*corev1.Pod{pod("5s", 0, 60), pod("3s", 2_000_000_000, 60)}}
		table := fault.NewTable(fault.Config{})
		m := New(Config{Node: n, Levels: Levels(30*time.Second, 10*time.Second), Period: time.Second, Faults: table, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx) })
		f, err := fault.New("off", fault.Spec{Point: fault.NodeShutdown, Effect: fault.Effect{Kind: fault.Value, Value: "imminent"}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		if m.IsShuttingDown() {
			t.Error("it goes down by itself")
		}
		table.Set([]fault.Fault{f})
		time.Sleep(10 * time.Second)
		if !m.IsShuttingDown() {
			t.Error("it does not go down")
		}
		table.Set(nil)
		time.Sleep(10 * time.Second)
		n.pods = []*corev1.Pod{pod("90s", 0, 60), pod("1s", 2_000_000_000, 60)}
		table.Set([]fault.Fault{f})
		time.Sleep(2 * time.Minute)
		cancel()
		running.Wait()
		if diff := cmp.Diff([]string{
			"2s changed", "2s end 5s within 20", "7s end 3s within 10", "12s changed",
			"22s changed", "22s end 90s within 20", "42s end 1s within 10",
		}, n.told); diff != "" {
			t.Errorf("it did (-want +got)\n%s", diff)
		}
	})
}
