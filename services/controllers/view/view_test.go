package view

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// feed is an API whose watch is the test.
type feed struct {
	mu   sync.Mutex
	sink podapi.Sink
}

func (f *feed) Follow(ctx context.Context, _ podapi.Target, _ metav1.ListOptions, sink podapi.Sink) error {
	f.mu.Lock()
	f.sink = sink
	f.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func pod(name, uid, revision, owner, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: revision}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
	}
	p.Spec.NodeName = node
	return p
}

// tale is what a handler was told.
type tale struct {
	mu   sync.Mutex
	told []string
}

func (a *tale) add(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, text)
}

// take is what was told since it was taken last.
func (a *tale) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.told
	a.told = nil
	return told
}

// watching is a copy of pods that is fed by the test, and what its handler was told.
func watching(t *testing.T, gate *EventGate) (*Copy[*corev1.Pod], *feed, *tale) {
	f, told := &feed{}, &tale{}
	set := NewSet(f, gate)
	pods := Of[*corev1.Pod](set, "pods")
	IndexByNode(pods)
	if Of[*corev1.Pod](set, "pods") != pods {
		t.Error("a kind has two copies")
	}
	pods.OnChange(func(old, now *corev1.Pod) {
		say := func(p *corev1.Pod) string {
			if p == nil {
				return "-"
			}
			return string(p.UID) + "@" + p.ResourceVersion
		}
		told.add(say(old) + ">" + say(now))
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- set.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the set ended with %v", err)
		}
	})
	synctest.Wait()
	select {
	case <-pods.Filled():
		t.Error("filled before the first list")
	default:
	}
	return pods, f, told
}

func (f *feed) apply(kind watch.EventType, p *corev1.Pod) {
	f.sink.Apply(watch.Event{Type: kind, Object: p})
	synctest.Wait()
}

func names(pods []*corev1.Pod) string {
	text := ""
	for _, p := range pods {
		text += p.Name + " "
	}
	return text
}

func TestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods, f, told := watching(t, nil)
		f.sink.Replace([]kinds.Object{pod("b", "2", "1", "rs", ""), pod("a", "1", "1", "", "n1")}, "1")
		<-pods.Filled()
		f.apply(watch.Modified, pod("b", "2", "2", "rs", "n1"))
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		check("all", names(pods.All()), "a b ")
		check("in", names(pods.InNamespace("default")), "a b ")
		check("controlled", names(pods.ControlledBy("rs")), "b ")
		check("orphans", names(pods.Orphans("default")), "a ")
		check("on n1", names(BoundTo(pods, "n1")), "a b ")
		// Made again under its name; adopted; gone without a word.
		f.apply(watch.Modified, pod("b", "3", "5", "", ""))
		f.apply(watch.Modified, pod("a", "1", "6", "rs", "n1"))
		check("controlled", names(pods.ControlledBy("rs")), "a ")
		check("on n1", names(BoundTo(pods, "n1")), "a ")
		f.sink.Replace([]kinds.Object{pod("b", "3", "5", "", "")}, "9")
		check("all", names(pods.All()), "b ")
		f.apply(watch.Deleted, pod("b", "3", "10", "", ""))
		check("all", names(pods.All()), "")
		check("orphans", names(pods.Orphans("default")), "")
		want := []string{"->2@1", "->1@1", "2@1>2@2", "2@2>-", "->3@5", "1@1>1@6", "1@6>-", "3@10>-"}
		if got := told.take(); !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}

func TestValve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewEventGate(clock.Clock{})
		pods, f, told := watching(t, gate)
		f.sink.Replace(nil, "1")
		synctest.Wait()
		<-pods.Filled()
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := told.take(); !slices.Equal(got, want) {
				t.Errorf("%s: told %v, want %v", what, got, want)
			}
		}
		gate.Close("pods")
		f.apply(watch.Added, pod("a", "1", "1", "", ""))
		time.Sleep(time.Hour)
		expect("closed")
		gate.Open("pods")
		expect("open", "->1@1")
		gate.Close("pods")
		for i := range 3 {
			f.apply(watch.Modified, pod("a", "1", fmt.Sprint(i+2), "", ""))
		}
		f.apply(watch.Deleted, pod("a", "1", "5", "", ""))
		f.apply(watch.Added, pod("a", "2", "6", "", ""))
		gate.Skip("pods")
		expect("missed", "1@1>-", "->2@6")
		gate.Delay("pods", 10*time.Second)
		f.apply(watch.Modified, pod("a", "2", "7", "", ""))
		time.Sleep(9 * time.Second)
		expect("delayed")
		time.Sleep(2 * time.Second)
		expect("late", "2@6>2@7")
	})
}
