package watch_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8swatch "k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

var (
	selected = map[string]string{"app": "web"}
	other    = map[string]string{"app": "db"}
	byLabel  = "app=web"
	reader   = proto.Client("reader")
)

// bubble runs a test around a stand in virtual time.
func bubble(t *testing.T, history int, test func(t *testing.T, s *stand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newStand(t, history)) })
}

func selecting(opts metav1.ListOptions) metav1.ListOptions {
	opts.LabelSelector = byLabel
	return opts
}

func TestTD040Sequences(t *testing.T) {
	type step struct {
		labels map[string]string // nil removes
		want   string
	}
	for name, steps := range map[string][]step{
		"TD-040 create matching":       {{selected, "ADDED"}},
		"TD-040 create other":          {{other, ""}},
		"TD-040 update into the match": {{other, ""}, {selected, "ADDED"}},
		"TD-040 update within":         {{selected, "ADDED"}, {map[string]string{"app": "web", "v": "2"}, "MODIFIED"}},
		"TD-040 update out":            {{selected, "ADDED"}, {other, "DELETED"}},
		"TD-040 delete matching":       {{selected, "ADDED"}, {nil, "DELETED"}},
		"TD-040 delete other":          {{other, ""}, {nil, ""}},
		"TD-041 in and out": {
			{other, ""},
			{selected, "ADDED"},
			{map[string]string{"app": "web", "v": "2"}, "MODIFIED"},
			{other, "DELETED"},
			{selected, "ADDED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 0, func(t *testing.T, s *stand) {
				begin := s.store.Snapshot().Revision()
				live := s.watch(s.client(reader), pods("ns"), selecting(at(begin)))
				var want []string
				var content []map[string]string
				previous := map[string]string(nil)
				for _, step := range steps {
					p := pod("ns", "p", step.labels)
					var revision int64
					if step.labels == nil {
						revision = s.remove(p)
					} else {
						revision = s.put(p)
					}
					if step.want != "" {
						want = append(want, as(step.want, p, revision))
						seen := step.labels
						if step.want == "DELETED" {
							seen = previous
						}
						content = append(content, seen)
					}
					previous = step.labels
				}
				// Both ways to learn of the changes agree: live, and from history.
				for _, w := range []*watching{live, s.watch(s.client(reader), pods("ns"), selecting(at(begin)))} {
					for i := range want {
						event := w.next()
						if got := line(event); got != want[i] {
							t.Fatalf("got %q, want %q", got, want[i])
						}
						if got := event.Object.(*corev1.Pod).Labels; fmt.Sprint(got) != fmt.Sprint(content[i]) {
							t.Fatalf("%s has labels %v, want %v", want[i], got, content[i])
						}
					}
					w.nothing(3 * time.Second)
				}
			})
		})
	}
}

func TestTD042DeletedCarriesTheRevisionOfTheDelete(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		p := pod("ns", "p", selected)
		written := s.put(p)
		w := s.watch(s.client(reader), pods("ns"), at(written))
		removed := s.remove(p)
		if removed <= written {
			t.Fatalf("removed at %d, written at %d", removed, written)
		}
		w.expect(as("DELETED", p, removed))
	})
}

func TestTD043FromZeroAndFromOne(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *stand) {
		a, b := pod("ns", "a", nil), pod("ns", "b", nil)
		first := s.put(b)
		second := s.put(a)
		c := s.client(reader)
		s.watch(c, pods("ns"), metav1.ListOptions{}).expect(as("ADDED", a, second), as("ADDED", b, first))
		s.watch(c, pods("ns"), at(0)).expect(as("ADDED", a, second), as("ADDED", b, first))
		later := s.watch(c, pods("ns"), at(first))
		later.expect(as("ADDED", a, second))
		later.nothing(3 * time.Second)

		if err := s.store.Compact(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		s.watch(c, pods("ns"), at(0)).expect(as("ADDED", a, second), as("ADDED", b, first))
		old := s.watch(c, pods("ns"), at(first))
		old.expect(fmt.Sprintf("ERROR 410 too old resource version: %d (%d)", first, s.store.Oldest()-1))
		old.ended(time.Second)
	})
}

func TestTD045UnreadEventsDoNotEndAWatch(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		var want []string
		for i := range 10 {
			p := pod("ns", fmt.Sprint("p", i), nil)
			want = append(want, as("ADDED", p, s.put(p)))
		}
		time.Sleep(5 * time.Minute)
		w.expect(want...)
	})
}

func TestTD047InitialEventsEnd(t *testing.T) {
	yes, no := true, false
	match := metav1.ResourceVersionMatchNotOlderThan
	for name, row := range map[string]struct {
		opts metav1.ListOptions
		want func(first, last int64) []string
	}{
		"TD-047 asked for, with bookmarks": {
			metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: match, AllowWatchBookmarks: true},
			func(first, last int64) []string {
				return []string{fmt.Sprint("ADDED a ", last), fmt.Sprint("ADDED b ", first), fmt.Sprint("BOOKMARK ", last, " end")}
			},
		},
		"TD-047 not older than a revision": {
			metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: match, AllowWatchBookmarks: true, ResourceVersion: "2"},
			func(first, last int64) []string {
				return []string{fmt.Sprint("ADDED a ", last), fmt.Sprint("ADDED b ", first), fmt.Sprint("BOOKMARK ", last, " end")}
			},
		},
		"WCH-12 asked for, without bookmarks": {
			metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: match},
			func(first, last int64) []string {
				return []string{fmt.Sprint("ADDED a ", last), fmt.Sprint("ADDED b ", first)}
			},
		},
		"WCH-11 unset, from 0, with bookmarks": {
			metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true},
			func(first, last int64) []string {
				return []string{fmt.Sprint("ADDED a ", last), fmt.Sprint("ADDED b ", first), fmt.Sprint("BOOKMARK ", last, " end")}
			},
		},
		"WCH-11 unset, from nowhere, without bookmarks": {
			metav1.ListOptions{},
			func(first, last int64) []string {
				return []string{fmt.Sprint("ADDED a ", last), fmt.Sprint("ADDED b ", first)}
			},
		},
		"WCH-13 refused, from nowhere": {
			metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: match, AllowWatchBookmarks: true},
			func(_, _ int64) []string { return nil },
		},
		"WCH-10 unset, from a revision, with bookmarks": {
			metav1.ListOptions{ResourceVersion: "2", AllowWatchBookmarks: true},
			func(_, last int64) []string { return []string{fmt.Sprint("ADDED a ", last)} },
		},
		"WCH-13 refused, from a revision": {
			metav1.ListOptions{ResourceVersion: "2", SendInitialEvents: &no, ResourceVersionMatch: match},
			func(_, last int64) []string { return []string{fmt.Sprint("ADDED a ", last)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 0, func(t *testing.T, s *stand) {
				b, a := pod("ns", "b", nil), pod("ns", "a", nil)
				first, last := s.put(b), s.put(a)
				if first != 2 {
					t.Fatalf("the first pod has revision %d", first)
				}
				w := s.watch(s.client(reader), pods("ns"), row.opts)
				w.expect(row.want(first, last)...)
				w.nothing(5 * time.Second)
				c := pod("ns", "c", nil)
				w.expect(as("ADDED", c, s.put(c)))
			})
		})
	}
}

func TestTD048AStuckReaderDelaysNobody(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
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
	bubble(t, 100, func(t *testing.T, s *stand) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		for i := range 3000 {
			s.put(pod("ns", "p", map[string]string{"n": strconv.Itoa(i)}))
			synctest.Wait()
		}
		last := uint64(0)
		for {
			event := w.next()
			if event.Type == k8swatch.Error {
				if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
					t.Fatalf("got %v, want 410 Expired", err)
				}
				break
			}
			revision, err := strconv.ParseUint(event.Object.(*corev1.Pod).ResourceVersion, 10, 64)
			if err != nil || last != 0 && revision != last+1 {
				t.Fatalf("revision %d after %d", revision, last)
			}
			last = revision
		}
		w.ended(time.Second)
	})
}

func TestALongHistoryIsReadInHelpings(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
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
		all.nothing(3 * time.Second)
		if s.asked != 5 {
			t.Errorf("%d watch requests, want 5", s.asked)
		}
	})
}

func TestALargeBatchIsSplitIntoFrames(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		var sizes []int
		var mu sync.Mutex
		s.mu.Lock()
		s.lose = func(frame *proto.Frame) bool {
			mu.Lock()
			defer mu.Unlock()
			if len(frame.GetEvents()) > 0 {
				sizes = append(sizes, len(frame.GetEvents()))
			}
			return false
		}
		s.mu.Unlock()
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

func TestTD050LabelWatches(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		c := s.client(reader)
		begin := at(s.store.Snapshot().Revision())
		web, all := s.watch(c, pods("ns"), selecting(begin)), s.watch(c, pods(""), begin)
		p := pod("ns", "p", selected)
		added := s.put(p)
		p.Spec.NodeName = "n1"
		bound := s.put(p)
		p.Labels = other
		left := s.put(p)
		p.Labels = selected
		back := s.put(p)
		gone := s.remove(p)

		want := []string{
			as("ADDED", p, added), as("MODIFIED", p, bound), as("DELETED", p, left), as("ADDED", p, back), as("DELETED", p, gone),
		}
		web.expect(want...)
		all.expect(
			as("ADDED", p, added), as("MODIFIED", p, bound), as("MODIFIED", p, left), as("MODIFIED", p, back), as("DELETED", p, gone),
		)
		s.watch(c, pods("ns"), selecting(at(added))).expect(want[1:]...)
		resumed := s.watch(c, pods("ns"), selecting(at(bound)))
		resumed.expect(want[2])
		resumed.Stop()
		s.watch(c, pods("ns"), selecting(at(left))).expect(want[3:]...)
	})
}

func TestWCH23AKubeletSeesABindingAsAdded(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		begin := at(s.store.Snapshot().Revision())
		mine, theirs := begin, begin
		mine.FieldSelector, theirs.FieldSelector = "spec.nodeName=n1", "spec.nodeName=n2"
		kubelet := s.watch(s.client(proto.Node("n1")), pods(""), mine)
		another := s.watch(s.client(proto.Node("n2")), pods(""), theirs)
		running := begin
		running.FieldSelector = "status.phase=Running"
		phase := s.watch(s.client(reader), pods(""), running)

		p := pod("ns", "p", nil)
		s.put(p)
		p.Spec.NodeName = "n1"
		kubelet.expect(as("ADDED", p, func() int64 { return s.put(p) }()))
		p.Status.Phase = corev1.PodRunning
		started := s.put(p)
		kubelet.expect(as("MODIFIED", p, started))
		phase.expect(as("ADDED", p, started))
		p.Status.Phase = corev1.PodSucceeded
		done := s.put(p)
		kubelet.expect(as("MODIFIED", p, done))
		phase.expect(as("DELETED", p, done))
		removed := s.remove(p)
		kubelet.expect(as("DELETED", p, removed))
		phase.nothing(3 * time.Second)
		another.nothing(3 * time.Second)
	})
}

func TestWCH10AFutureRevisionWaitsSilently(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		begin := s.store.Snapshot().Revision()
		w := s.watch(s.client(reader), pods("ns"), at(begin+2))
		s.put(pod("ns", "a", nil))
		s.restart() // the wish survives the boot
		s.put(pod("ns", "b", nil))
		w.nothing(10 * time.Second)
		p := pod("ns", "c", nil)
		w.expect(as("ADDED", p, s.put(p)))
	})
}

func TestWCH03InitialEventsOfAFutureRevision(t *testing.T) {
	yes := true
	opts := func(revision int64) metav1.ListOptions {
		opts := at(revision)
		opts.SendInitialEvents, opts.ResourceVersionMatch = &yes, metav1.ResourceVersionMatchNotOlderThan
		return opts
	}
	bubble(t, 0, func(t *testing.T, s *stand) {
		c, current := s.client(reader), s.store.Snapshot().Revision()
		began := time.Now()
		_, err := c.Watch(t.Context(), pods("ns"), opts(current+5))
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("refused after %s, want 3s", waited)
		}
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != 504 || status.Status().Details.RetryAfterSeconds != 1 ||
			!apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("refused with %v, want 504 with a cause and retryAfterSeconds 1", err)
		}
		if want := fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", current+5, current); err.Error() != want {
			t.Errorf("refused with %q, want %q", err, want)
		}
		p := pod("ns", "p", nil)
		stored := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			s.put(p)
			close(stored)
		})
		s.watch(c, pods("ns"), opts(current+1)).expect(as("ADDED", p, current+1))
		<-stored
	})
}

func TestW10GarbageIsRefused(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		c := s.client(reader)
		for name, opts := range map[string]metav1.ListOptions{
			"revision": {ResourceVersion: "x"}, "negative": {ResourceVersion: "-1"},
			"labels": {LabelSelector: "a=b=c"}, "fields": {FieldSelector: "a"},
		} {
			if _, err := c.Watch(t.Context(), pods("ns"), opts); !apierrors.IsBadRequest(err) {
				t.Errorf("%s: got %v, want 400", name, err)
			}
		}
	})
}

func TestWCH33AWatchEndsInPeace(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		c := s.client(reader)
		ninety := int64(90)
		opts := metav1.ListOptions{TimeoutSeconds: &ninety, AllowWatchBookmarks: true}
		began := time.Now()
		w := s.watch(c, pods("ns"), opts)
		w.expect("BOOKMARK 1 end")
		s.put(pod("other", "p", nil)) // moves the bookmark although the selection did not change
		var marks []time.Duration
		for event := range w.ResultChan() {
			if got := line(event); got != "BOOKMARK 2" {
				t.Fatalf("got %q, want a bookmark at 2", got)
			}
			marks = append(marks, time.Since(began).Round(time.Second))
		}
		if lasted := time.Since(began); lasted != 90*time.Second {
			t.Errorf("lasted %s, want 1m30s", lasted)
		}
		if len(marks) != 2 || marks[0] < 60*time.Second || marks[0] > 61*time.Second || marks[1] < 88*time.Second {
			t.Errorf("bookmarks after %v, want about 1m0s and just before the end", marks)
		}
		began = time.Now()
		unlimited := s.watch(c, pods("ns"), metav1.ListOptions{ResourceVersion: "2"})
		for event := range unlimited.ResultChan() {
			t.Fatalf("got %q, want nothing without bookmarks", line(event))
		}
		if lasted := time.Since(began); lasted < 30*time.Minute || lasted > time.Hour {
			t.Errorf("lasted %s, want 30 to 60 minutes", lasted)
		}
	})
}

func TestTwoReadersSeeOneOrder(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
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
		if groups := s.hub.Groups(); groups != 1 {
			t.Errorf("%d groups, want both readers in one", groups)
		}
	})
}

func TestJoiningWhileWritesGoOn(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *stand) {
		ctx, cancel := context.WithCancel(t.Context())
		var writers, readers sync.WaitGroup
		for i := range 4 {
			writers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
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
		cancel()
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
	bubble(t, 0, func(t *testing.T, s *stand) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		s.mu.Lock()
		s.lose = func(frame *proto.Frame) bool { return len(frame.GetEvents()) > 0 }
		s.mu.Unlock()
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
	bubble(t, 0, func(t *testing.T, s *stand) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		s.mu.Lock()
		s.lose = func(*proto.Frame) bool { return true }
		s.mu.Unlock()
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
	bubble(t, 0, func(t *testing.T, s *stand) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		p := pod("ns", "p", nil)
		w.expect(as("ADDED", p, s.put(p)))
		p.Labels = other
		for range 3 {
			s.restart()
			revision := s.remove(p)
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
	bubble(t, 0, func(t *testing.T, s *stand) {
		w := s.watch(s.client(reader), pods("ns"), at(s.store.Snapshot().Revision()))
		for i := range 5 {
			s.cut()
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
	bubble(t, 0, func(t *testing.T, s *stand) {
		c := s.client(reader)
		begin := at(s.store.Snapshot().Revision())
		lasting, short := s.watch(c, pods("ns"), begin), s.watch(c, pods("other"), begin)
		time.Sleep(10 * time.Minute)
		if groups := s.hub.Groups(); groups != 2 {
			t.Fatalf("%d groups, want the 2 that are read", groups)
		}
		if s.asked != 2 {
			t.Errorf("%d watch requests, want 2: renewals are enough", s.asked)
		}
		short.Stop()
		time.Sleep(90 * time.Second)
		if groups := s.hub.Groups(); groups != 1 {
			t.Fatalf("%d groups, want the 1 that is read", groups)
		}
		p := pod("ns", "p", nil)
		lasting.expect(as("ADDED", p, s.put(p)))
	})
}

func TestWCH31ACopyListsAgainWhenTheHistoryHasGone(t *testing.T) {
	bubble(t, 5, func(t *testing.T, s *stand) {
		c := s.client(reader)
		s.put(pod("ns", "old", nil))
		copied := podapi.NewStore()
		ctx, cancel := context.WithCancel(t.Context())
		followed := make(chan error, 1)
		go func() { followed <- c.Follow(ctx, pods("ns"), metav1.ListOptions{}, copied) }()
		<-copied.Synced()
		equal(t, copied, "old")

		s.put(pod("ns", "live", nil))
		await(t, copied, func() bool { return copied.Len() == 2 })

		// Everything is lost until the history no longer reaches back.
		s.mu.Lock()
		s.lose = func(frame *proto.Frame) bool { return len(frame.GetEvents()) > 0 }
		s.mu.Unlock()
		s.stop()
		s.start()
		s.remove(pod("ns", "old", nil))
		for i := range 20 {
			s.put(pod("ns", "churn", map[string]string{"n": strconv.Itoa(i)}))
		}
		s.mu.Lock()
		s.lose = nil
		s.mu.Unlock()
		await(t, copied, func() bool { _, ok := copied.Get("ns", "old"); return !ok })
		equal(t, copied, "churn", "live")
		cancel()
		if err := <-followed; err != context.Canceled {
			t.Errorf("Follow returned %v, want its context's error", err)
		}
	})
}

func await(t *testing.T, copied *podapi.Store, done func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		changed := copied.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the copy is at %s with %d objects", copied.ResourceVersion(), copied.Len())
		}
	}
}

func equal(t *testing.T, copied *podapi.Store, names ...string) {
	t.Helper()
	var got []string
	for _, obj := range copied.List() {
		got = append(got, obj.GetName())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("the copy has %v, want %v", got, names)
	}
}
