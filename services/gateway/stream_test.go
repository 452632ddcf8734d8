package gateway

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// fakeSource is a source with watches that a test writes.
type fakeSource struct {
	opened []*watch.FakeWatcher
	err    error
}

func (b *fakeSource) Watch(ctx context.Context, _ podapi.Target, _ metav1.ListOptions) (watch.Interface, error) {
	if b.err != nil {
		return nil, b.err
	}
	w := watch.NewFakeWithChanSize(maxLag+100, false)
	b.opened = append(b.opened, w)
	return w, ctx.Err()
}

func podAt(revision int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: strconv.Itoa(revision)}}
}

func podsTarget() podapi.Target {
	pods, _ := kinds.ByResource("pods")
	return podapi.Target{Kind: pods}
}

// runShared runs a test of shared watches in a bubble, and fails if a goroutine is left.
func runShared(t *testing.T, test func(t *testing.T, b *fakeSource, s *sharedWatches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, pumps := &fakeSource{}, daemon.NewGroup(t.Context())
		test(t, b, newSharedWatches(b, pumps))
		pumps.Stop()
		if err := pumps.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func mustJoin(t *testing.T, s *sharedWatches, opts metav1.ListOptions) *watchReader {
	t.Helper()
	r, err := s.join(t.Context(), podsTarget(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadersOfOneScopeShareAWatch(t *testing.T) {
	runShared(t, func(t *testing.T, b *fakeSource, s *sharedWatches) {
		first := mustJoin(t, s, metav1.ListOptions{LabelSelector: "a=1,b=2"})
		b.opened[0].Add(podAt(1))
		synctest.Wait()
		second := mustJoin(t, s, metav1.ListOptions{LabelSelector: "b=2,a=1", ResourceVersion: "7"})
		other := mustJoin(t, s, metav1.ListOptions{LabelSelector: "a=1"})
		if len(b.opened) != 2 {
			t.Fatalf("%d watches, want 2: of two scopes", len(b.opened))
		}
		b.opened[0].Modify(podAt(2))
		synctest.Wait()
		for name, r := range map[string]*watchReader{"first": first, "second": second} {
			var seen []uint64
			for {
				select {
				case <-r.ready():
					seen = append(seen, r.next().revision)
					continue
				default:
				}
				break
			}
			if want := map[string]int{"first": 2, "second": 1}[name]; len(seen) != want || seen[want-1] != 2 {
				t.Errorf("the %s reader saw %v", name, seen)
			}
		}
		select {
		case <-other.ready():
			t.Error("the reader of another scope saw something")
		default:
		}
		first.close()
		synctest.Wait()
		if b.opened[0].IsStopped() {
			t.Error("the watch has ended, and has a reader")
		}
		second.close()
		other.close()
		synctest.Wait()
		if !b.opened[0].IsStopped() || !b.opened[1].IsStopped() {
			t.Error("a watch goes on without a reader")
		}
		mustJoin(t, s, metav1.ListOptions{LabelSelector: "a=1"}).close()
		if len(b.opened) != 3 {
			t.Errorf("%d watches after all had ended and one began, want 3", len(b.opened))
		}
	})
}

func TestASharedWatchThatEnds(t *testing.T) {
	runShared(t, func(t *testing.T, b *fakeSource, s *sharedWatches) {
		r := mustJoin(t, s, metav1.ListOptions{})
		b.opened[0].Error(&metav1.Status{Code: 410})
		b.opened[0].Stop()
		<-r.ready()
		if change := r.next(); change == nil || change.Type != watch.Error {
			t.Errorf("%+v, want the ERROR", change)
		}
		<-r.ready()
		if change := r.next(); change != nil {
			t.Errorf("%+v, want the end", change)
		}
		again := mustJoin(t, s, metav1.ListOptions{})
		if len(b.opened) != 2 {
			t.Error("a reader joined what has ended")
		}
		r.close()
		again.close()
	})
}

func TestASharedWatchThatIsRefused(t *testing.T) {
	runShared(t, func(t *testing.T, b *fakeSource, s *sharedWatches) {
		b.err = errors.New("not today")
		if _, err := s.join(t.Context(), podsTarget(), metav1.ListOptions{}); !errors.Is(err, b.err) {
			t.Errorf("join: %v", err)
		}
		b.err = nil
		mustJoin(t, s, metav1.ListOptions{}).close()
	})
}

// TestASlowReaderIsDropped: a slow reader blocks no other reader (WCH-34).
func TestASlowReaderIsDropped(t *testing.T) {
	runShared(t, func(t *testing.T, b *fakeSource, s *sharedWatches) {
		slow, quick := mustJoin(t, s, metav1.ListOptions{}), mustJoin(t, s, metav1.ListOptions{})
		for i := range maxLag + 1 {
			b.opened[0].Modify(podAt(i + 1))
			<-quick.ready()
			if change := quick.next(); change == nil || change.revision != uint64(i+1) {
				t.Fatalf("the quick reader: %+v at %d", change, i+1)
			}
		}
		if <-slow.ready(); slow.next() != nil {
			t.Error("a reader that far behind goes on")
		}
		slow.close()
		quick.close()
	})
}

// TestAnEventIsEncodedOnce: each event is encoded once in each form.
func TestAnEventIsEncodedOnce(t *testing.T) {
	var encoded atomic.Int32
	e := &event{Event: watch.Event{Type: watch.Added, Object: podAt(1)}}
	for range 3 {
		for _, key := range []frameKey{{form: defaultForm()}, {form: defaultForm(), withColumns: true}} {
			frame, err := e.cachedFrame(key, func(watch.Event) ([]byte, error) {
				encoded.Add(1)
				return []byte(strconv.FormatBool(key.withColumns)), nil
			})
			if err != nil || string(frame) != strconv.FormatBool(key.withColumns) {
				t.Errorf("%s %v", frame, err)
			}
		}
	}
	if encoded.Load() != 2 {
		t.Errorf("encoded %d times, want 2", encoded.Load())
	}
}
