package watch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
)

var (
	selected = map[string]string{"app": "web"}
	other    = map[string]string{"app": "db"}
	byLabel  = "app=web"
	reader   = proto.Client("reader")
)

// bubble runs a test around a stand in virtual time.
func bubble(t *testing.T, history int, test func(t *testing.T, s *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newHarness(t, history)) })
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
			bubble(t, 0, func(t *testing.T, s *harness) {
				begin := s.store.Snapshot().Revision()
				live := s.watch(s.client(reader), pods("ns"), selecting(at(begin)))
				var want []string
				var content []map[string]string
				previous := map[string]string(nil)
				for _, step := range steps {
					p := pod("ns", "p", step.labels)
					var revision int64
					if step.labels == nil {
						revision = s.delete(p)
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
				for _, w := range []*openWatch{live, s.watch(s.client(reader), pods("ns"), selecting(at(begin)))} {
					for i := range want {
						event := w.next()
						if got := line(event); got != want[i] {
							t.Fatalf("got %q, want %q", got, want[i])
						}
						if p, ok := event.Object.(*corev1.Pod); !ok || fmt.Sprint(p.Labels) != fmt.Sprint(content[i]) {
							t.Fatalf("%s has content %v, want labels %v", want[i], event.Object, content[i])
						}
					}
					w.expectNone(3 * time.Second)
				}
			})
		})
	}
}

func TestTD042DeletedCarriesTheRevisionOfTheDelete(t *testing.T) {
	bubble(t, 0, func(t *testing.T, s *harness) {
		p := pod("ns", "p", selected)
		written := s.put(p)
		w := s.watch(s.client(reader), pods("ns"), at(written))
		removed := s.delete(p)
		if removed <= written {
			t.Fatalf("removed at %d, written at %d", removed, written)
		}
		w.expect(as("DELETED", p, removed))
	})
}

func TestTD043FromZeroAndFromOne(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *harness) {
		a, b := pod("ns", "a", nil), pod("ns", "b", nil)
		first := s.put(b)
		second := s.put(a)
		c := s.client(reader)
		s.watch(c, pods("ns"), metav1.ListOptions{}).expect(as("ADDED", a, second), as("ADDED", b, first))
		s.watch(c, pods("ns"), at(0)).expect(as("ADDED", a, second), as("ADDED", b, first))
		later := s.watch(c, pods("ns"), at(first))
		later.expect(as("ADDED", a, second))
		later.expectNone(3 * time.Second)

		if err := s.store.Compact(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		s.watch(c, pods("ns"), at(0)).expect(as("ADDED", a, second), as("ADDED", b, first))
		old := s.watch(c, pods("ns"), at(first))
		old.expect(fmt.Sprintf("ERROR 410 too old resource version: %d (%d)", first, s.store.Oldest()-1))
		old.expectEnd(time.Second)
	})
}

func TestTD045UnreadEventsDoNotEndAWatch(t *testing.T) {
	bubble(t, 0, func(_ *testing.T, s *harness) {
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
			bubble(t, 0, func(t *testing.T, s *harness) {
				b, a := pod("ns", "b", nil), pod("ns", "a", nil)
				first, last := s.put(b), s.put(a)
				if first != 2 {
					t.Fatalf("the first pod has revision %d", first)
				}
				w := s.watch(s.client(reader), pods("ns"), row.opts)
				w.expect(row.want(first, last)...)
				w.expectNone(5 * time.Second)
				c := pod("ns", "c", nil)
				w.expect(as("ADDED", c, s.put(c)))
			})
		})
	}
}

func TestTD050LabelWatches(t *testing.T) {
	bubble(t, 0, func(_ *testing.T, s *harness) {
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
		gone := s.delete(p)

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
	bubble(t, 0, func(_ *testing.T, s *harness) {
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
		removed := s.delete(p)
		kubelet.expect(as("DELETED", p, removed))
		phase.expectNone(3 * time.Second)
		another.expectNone(3 * time.Second)
	})
}

func TestWCH10AFutureRevisionWaitsSilently(t *testing.T) {
	bubble(t, 0, func(_ *testing.T, s *harness) {
		begin := s.store.Snapshot().Revision()
		w := s.watch(s.client(reader), pods("ns"), at(begin+2))
		s.put(pod("ns", "a", nil))
		s.restart() // the wish survives the boot
		s.put(pod("ns", "b", nil))
		w.expectNone(10 * time.Second)
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
	bubble(t, 0, func(t *testing.T, s *harness) {
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
	bubble(t, 0, func(t *testing.T, s *harness) {
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
	bubble(t, 0, func(t *testing.T, s *harness) {
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
