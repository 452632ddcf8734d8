package pulls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
)

// fakeNode is a runtime whose images are pulled in ten seconds, or not at all, and a recorder of
// the events.
type fakeNode struct {
	has   map[string]bool
	fails error

	mu     sync.Mutex
	events []string
	most   int // pulls at a time
	now    int
}

func (n *fakeNode) ImageStatus(_ context.Context, image string) (bool, error) {
	return n.has[image], nil
}

func (n *fakeNode) PullImage(context.Context, string) (int64, error) {
	n.mu.Lock()
	n.now++
	n.most = max(n.most, n.now)
	n.mu.Unlock()
	time.Sleep(10 * time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now--
	return 7, n.fails
}

func (n *fakeNode) ContainerEvent(_ *corev1.Pod, container, kind, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, fmt.Sprintf("%s %s %s: %s", container, kind, reason, message))
}

func (n *fakeNode) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.events
	n.events = nil
	return events
}

var pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}

func puller(n *fakeNode) *Puller {
	return New(Config{Images: n, Events: n, Timing: Timing{Initial: 10 * time.Second, Max: 5 * time.Minute}})
}

func container(image string, policy corev1.PullPolicy) *corev1.Container {
	return &corev1.Container{Name: "c", Image: image, ImagePullPolicy: policy}
}

// TestPolicies: what each policy does with an image that is there, and with one that is not.
func TestPolicies(t *testing.T) {
	const (
		already = `c Normal Pulled: Container image "has" already present on machine and can be accessed by the pod`
		pulling = `c Normal Pulling: Pulling image "%[1]s"|c Normal Pulled: Successfully pulled image "%[1]s" in 10s (10s including waiting). Image size: 7 bytes.`
	)
	for _, c := range []struct {
		image  string
		policy corev1.PullPolicy
		events string
		reason string
	}{
		{"has", corev1.PullIfNotPresent, already, ""},
		{"has", corev1.PullNever, already, ""},
		{"has", corev1.PullAlways, fmt.Sprintf(pulling, "has"), ""},
		{"lacks", corev1.PullIfNotPresent, fmt.Sprintf(pulling, "lacks"), ""},
		{"lacks", corev1.PullAlways, fmt.Sprintf(pulling, "lacks"), ""},
		{
			"lacks", corev1.PullNever,
			`c Warning ErrImageNeverPull: Container image "lacks" is not present with pull policy of Never`, "ErrImageNeverPull",
		},
		{
			"BAD", corev1.PullIfNotPresent, `c Warning InspectFailed: Failed to apply default image tag "BAD": ` +
				`couldn't parse image name "BAD": invalid reference format: repository name (BAD) must be lowercase`, "InvalidImageName",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &fakeNode{has: map[string]bool{"has:latest": true}}
			err := puller(n).Ensure(t.Context(), pod, container(c.image, c.policy))
			if why, _ := errors.AsType[*Error](err); (why == nil) != (c.reason == "") || why != nil && why.Reason != c.reason {
				t.Errorf("%s %s: %v, want %s", c.policy, c.image, err, c.reason)
			}
			if diff := cmp.Diff(strings.Split(c.events, "|"), n.take()); diff != "" {
				t.Errorf("%s %s: events (-want +got)\n%s", c.policy, c.image, diff)
			}
		})
	}
}

// TestBackOff: pulls that fail are tried after 10 s, 20 s, and so on up to 5 min, and the
// first that succeeds is the last.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{fails: errors.New("not found")}
		p, c := puller(n), container("lacks", corev1.PullIfNotPresent)
		var waits []time.Duration
		for range 7 {
			err := p.Ensure(t.Context(), pod, c)
			if err == nil || err.Error() != "not found" {
				t.Fatal("pull:", err)
			}
			n.take()
			time.Sleep(time.Second)
			held, _ := errors.AsType[*Error](p.Ensure(t.Context(), pod, c))
			if held == nil || held.Reason != ReasonBackOff || held.Message != `Back-off pulling image "lacks": ErrImagePull: not found` {
				t.Fatalf("held back: %+v", held)
			}
			if diff := cmp.Diff([]string{`c Normal BackOff: Back-off pulling image "lacks"`}, n.take()); diff != "" {
				t.Error(diff)
			}
			waits = append(waits, held.After+time.Second)
			time.Sleep(held.After)
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}, waits); diff != "" {
			t.Error("waits (-want +got)\n" + diff)
		}
		n.fails = nil
		if err := p.Ensure(t.Context(), pod, c); err != nil {
			t.Error("the registry is back:", err)
		}
		p.Forget(pod.UID)
		if len(p.backoffs) != 0 {
			t.Error("back-offs of a pod that is forgotten:", p.backoffs)
		}
	})
}

// TestOneAtATime: pulls wait for each other, and say so.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		p := puller(n)
		var pulling sync.WaitGroup
		for _, image := range []string{"a", "b"} {
			pulling.Go(func() {
				if err := p.Ensure(t.Context(), pod, container(image, corev1.PullAlways)); err != nil {
					t.Error(err)
				}
			})
		}
		pulling.Wait()
		if n.most != 1 {
			t.Errorf("%d pulls at a time", n.most)
		}
		if last := n.take()[3]; !strings.HasSuffix(last, "in 10s (20s including waiting). Image size: 7 bytes.") {
			t.Error(last)
		}
	})
}

// TestInjected: what a pull is to suffer makes an image that is there have to be pulled,
// and fails it in the runtime's words.
func TestInjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{has: map[string]bool{"has:latest": true}}
		table := fault.NewTable(fault.Config{})
		f, err := fault.New("f", fault.Spec{
			Point: fault.ImagePull, Where: fault.Attributes{Image: "has"}, Effect: fault.Effect{Kind: fault.Error, Message: "401 Unauthorized"},
		}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		table.Set([]fault.Fault{f})
		p := puller(n)
		p.cfg.Faults = table
		err = p.Ensure(t.Context(), pod, container("has", corev1.PullIfNotPresent))
		want := `rpc error: code = Unknown desc = failed to pull and unpack image "has:latest": 401 Unauthorized`
		if err == nil || err.Error() != want {
			t.Errorf("pull: %v\nwant %s", err, want)
		}
		table.Set(nil)
		if err := p.Ensure(t.Context(), pod, container("has", corev1.PullIfNotPresent)); err != nil {
			t.Error("cleared:", err)
		}
	})
}
