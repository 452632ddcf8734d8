package watch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8swatch "k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

func TestTD048AStuckReaderDelaysNobody(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		c := s.client(reader)
		begin := at(s.store.Snapshot().Revision())
		stuck := s.watch(c, pods("ns"), begin)
		// The same group, on the same connection.
		quick := s.watch(c, pods("ns"), begin)
		const writes = 3000
		want := make([]string, writes)
		for i := range writes {
			p := pod("ns", "p", map[string]string{"n": strconv.Itoa(i)})
			written := time.Now()
			revision := s.put(p)
			want[i] = as("MODIFIED", p, revision)
			if i == 0 {
				want[i] = as("ADDED", p, revision)
			}
			quick.expect(want[i])
			if late := time.Since(written); late != 0 {
				t.Fatalf("event %d came %s late", i, late)
			}
		}
		// It has lost its place in the live stream, and gets everything all the same (W7).
		stuck.expect(want...)
		p := pod("ns", "p", map[string]string{"n": "last"})
		stuck.expect(as("MODIFIED", p, s.put(p)))
	})
}

func TestW7ASlowReaderWhoseHistoryHasGoneIsTold(t *testing.T) {
	bubble(t, 100, func(t *testing.T, s *harness) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		for i := range 3000 {
			s.put(pod("ns", "p", map[string]string{"n": strconv.Itoa(i)}))
			synctest.Wait()
		}
		last := int64(0)
		for {
			event := w.next()
			if event.Type == k8swatch.Error {
				if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
					t.Fatalf("got %v, want 410 Expired", err)
				}
				break
			}
			got, err := observedFrom(event)
			if err != nil || last != 0 && got.revision != last+1 {
				t.Fatalf("revision %d after %d, %v", got.revision, last, err)
			}
			last = got.revision
		}
		w.expectEnd(time.Second)
	})
}

func TestALongHistoryIsReadInHelpings(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		begin := s.store.Snapshot().Revision()
		heavy := strings.Repeat("x", 150_000)
		var want []string
		for i := range 100 { // 15 MB, and a helping is 4 MiB
			p := pod("ns", fmt.Sprint("p", i), nil)
			p.Annotations = map[string]string{"heavy": heavy}
			want = append(want, as("ADDED", p, s.put(p)))
		}
		w := s.watch(s.client(reader), pods("ns"), at(begin))
		w.expect(want...)
		if s.asked != 4 {
			t.Errorf("%d watch requests for 15 MB of history, want 4", s.asked)
		}
		p := pod("ns", "live", nil)
		w.expect(as("ADDED", p, s.put(p)))
		// The same as initial events, which come in one answer, however large.
		all := s.watch(s.client(reader), pods("ns"), metav1.ListOptions{})
		for range 101 {
			all.next()
		}
		all.expectNone(3 * time.Second)
		if s.asked != 5 {
			t.Errorf("%d watch requests, want 5", s.asked)
		}
	})
}

func TestALargeBatchIsSplitIntoFrames(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		var sizes []int
		var mu sync.Mutex
		s.dropFrames(func(frame *proto.Frame) bool {
			mu.Lock()
			defer mu.Unlock()
			if len(frame.GetEvents()) > 0 {
				sizes = append(sizes, len(frame.GetEvents()))
			}
			return false
		})
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		heavy := strings.Repeat("x", 100_000)
		var writes []store.Write
		for i := range 10 {
			p := pod("ns", fmt.Sprint("p", i), nil)
			p.Annotations = map[string]string{"heavy": heavy}
			writes = append(writes, store.Write{Key: keyOf(p), Object: p})
		}
		for _, event := range s.commit(writes...) {
			w.expect(fmt.Sprintf("ADDED %s %d", event.Record.Key.Name, event.Revision))
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []int{3, 3, 3, 1}; !slices.Equal(sizes, want) {
			t.Errorf("frames of %v events, want %v: 256 KiB each", sizes, want)
		}
	})
}

func TestTD050ConcurrentWatchesSeeOneOrder(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		begin := at(s.store.Snapshot().Revision())
		one, two := s.watch(s.client(reader), pods("ns"), begin), s.watch(s.client(proto.Client("b")), pods("ns"), begin)
		for i := range 50 {
			s.put(pod("ns", fmt.Sprint("p", i%7), map[string]string{"n": strconv.Itoa(i)}))
		}
		for range 50 {
			if a, b := line(one.next()), line(two.next()); a != b {
				t.Fatalf("one reader got %q, the other %q", a, b)
			}
		}
		if groups := s.hub.GroupsForTest(); groups != 1 {
			t.Errorf("%d groups, want both readers in one", groups)
		}
	})
}

func TestTD046RevisionsNeverFallHoweverAWatchJoins(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		var enough atomic.Bool
		var writers, readers sync.WaitGroup
		for i := range 4 {
			writers.Go(func() {
				for n := 0; !enough.Load(); n++ {
					s.put(pod("ns", fmt.Sprint("p", i), map[string]string{"n": strconv.Itoa(n)}))
				}
			})
		}
		if err := s.store.WaitFor(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			c := s.client(reader)
			readers.Go(func() {
				for range 25 {
					if err := contiguous(t.Context(), c, s.store.Snapshot().Revision()-int64(i), 30); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		readers.Wait()
		enough.Store(true)
		writers.Wait()
	})
}

// contiguous watches all pods, to which all writes go, so that each revision is an event.
func contiguous(ctx context.Context, c *podapi.Client, behind int64, n int) error {
	w, err := c.Watch(ctx, pods(""), at(behind))
	if err != nil {
		return err
	}
	defer w.Stop()
	for i := range n {
		event := <-w.ResultChan()
		p, ok := event.Object.(*corev1.Pod)
		if want := strconv.FormatInt(behind+int64(i)+1, 10); !ok || p.ResourceVersion != want {
			return fmt.Errorf("got %s after revision %d, want revision %s", line(event), behind, want)
		}
	}
	return nil
}

func TestALostFrameIsMadeUpFor(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		s.dropFrames(func(frame *proto.Frame) bool { return len(frame.GetEvents()) > 0 })
		p := pod("ns", "p", nil)
		revision := s.put(p)
		lost := time.Now()
		w.expect(as("ADDED", p, revision))
		if after := time.Since(lost); after > 2*time.Second {
			t.Errorf("the loss was noticed after %s, want a heartbeat", after)
		}
	})
}

func TestSilenceMakesAReaderAsk(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		s.dropFrames(func(*proto.Frame) bool { return true })
		p := pod("ns", "p", nil)
		revision := s.put(p)
		lost := time.Now()
		w.expect(as("ADDED", p, revision))
		if after := time.Since(lost); after > 5*time.Second {
			t.Errorf("the silence was noticed after %s, want at most 5s (L4)", after)
		}
	})
}

func TestAWatchOutlivesTheAPIServer(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		p := pod("ns", "p", nil)
		w.expect(as("ADDED", p, s.put(p)))
		p.Labels = other
		for range 3 {
			s.restart()
			revision := s.delete(p)
			up := time.Now()
			w.expect(as("DELETED", p, revision))
			if after := time.Since(up); after > 5*time.Second {
				t.Errorf("the new boot was noticed after %s, want at most 5s (L4)", after)
			}
			w.expect(as("ADDED", p, s.put(p)))
		}
	})
}

func TestAWatchOutlivesItsConnection(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		for i := range 5 {
			s.cutConnections()
			p := pod("ns", fmt.Sprint("p", i), nil)
			revision := s.put(p)
			up := time.Now()
			w.expect(as("ADDED", p, revision))
			if after := time.Since(up); after > 2*time.Second {
				t.Errorf("the break was made up for after %s", after)
			}
		}
	})
}

func TestGroupsDieWithoutReaders(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		c := s.client(reader)
		begin := at(s.store.Snapshot().Revision())
		lasting, short := s.watch(c, pods("ns"), begin), s.watch(c, pods("other"), begin)
		time.Sleep(10 * time.Minute)
		if groups := s.hub.GroupsForTest(); groups != 2 {
			t.Fatalf("%d groups, want the 2 that are read", groups)
		}
		if s.asked != 2 {
			t.Errorf("%d watch requests, want 2: renewals are enough", s.asked)
		}
		short.Stop()
		time.Sleep(90 * time.Second)
		if groups := s.hub.GroupsForTest(); groups != 1 {
			t.Fatalf("%d groups, want the 1 that is read", groups)
		}
		p := pod("ns", "p", nil)
		lasting.expect(as("ADDED", p, s.put(p)))
	})
}

func TestWCH31ACopyListsAgainWhenTheHistoryHasGone(t *testing.T) {
	bubble(t, 5, func(t *testing.T, s *harness) {
		c := s.client(reader)
		s.put(pod("ns", "old", nil))
		copied := newMirror()
		ctx, cancel := context.WithCancel(t.Context())
		followed := make(chan error, 1)
		go func() { followed <- c.Follow(ctx, pods("ns"), metav1.ListOptions{}, copied) }()
		await(t, copied, func() bool { return copied.has("old") })
		equal(t, copied, "old")

		s.put(pod("ns", "live", nil))
		await(t, copied, func() bool { return copied.has("live") })

		// Everything is lost until the history no longer reaches back.
		s.dropFrames(func(frame *proto.Frame) bool { return len(frame.GetEvents()) > 0 })
		s.stop()
		s.start()
		s.delete(pod("ns", "old", nil))
		for i := range 20 {
			s.put(pod("ns", "churn", map[string]string{"n": strconv.Itoa(i)}))
		}
		s.dropFrames(nil)
		await(t, copied, func() bool { return !copied.has("old") })
		equal(t, copied, "churn", "live")
		cancel()
		if err := <-followed; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v, want its context's error", err)
		}
	})
}

// mirror is a sink that keeps the names of what there is.
type mirror struct {
	mu      sync.Mutex
	names   map[string]bool
	changed chan struct{} // closed at the next change
}

func newMirror() *mirror { return &mirror{changed: make(chan struct{})} }

func (m *mirror) Replace(items []kinds.Object, _ string) {
	m.change(func() {
		m.names = map[string]bool{}
		for _, item := range items {
			m.names[item.GetName()] = true
		}
	})
}

func (m *mirror) Apply(event k8swatch.Event) {
	obj, _ := event.Object.(kinds.Object)
	m.change(func() { m.names[obj.GetName()] = event.Type != k8swatch.Deleted })
}

func (m *mirror) change(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *mirror) has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[name]
}

func (m *mirror) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func await(t *testing.T, copied *mirror, done func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		changed := copied.next()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the copy has %v", copied.names)
		}
	}
}

func equal(t *testing.T, copied *mirror, names ...string) {
	t.Helper()
	copied.mu.Lock()
	defer copied.mu.Unlock()
	var got []string
	for name, there := range copied.names {
		if there {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("the copy has %v, want %v", got, names)
	}
}
