package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/store"
)

func TestConflictCarriesThePresentRecord(t *testing.T) {
	s := open(t, config(t))
	made := put(t, s, write(small("web", "n1"), store.Absent))
	_, err := s.Commit(t.Context(), store.Commit{Writes: []store.Write{
		write(small("other", "n1"), store.Absent),
		write(small("web", "n2"), made[0].Revision-1),
	}})
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, store.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if conflict.Have != made[0].Record || conflict.Key != made[0].Record.Key {
		t.Errorf("conflict carries %+v, want %+v", conflict.Have, made[0].Record)
	}
	if s.Snapshot().Get(store.Key{Resource: "pods", Namespace: "default", Name: "other"}) != nil {
		t.Error("a write before the conflict happened")
	}
	if next := put(t, s, write(small("third", ""), store.Absent)); next[0].Revision != made[0].Revision+1 {
		t.Errorf("the refused commit used up revision %d", made[0].Revision+1)
	}
}

// A delete with grace 0 marks and removes in one commit.
func TestTwoWritesOfOneObject(t *testing.T) {
	s := open(t, config(t))
	made := put(t, s, write(small("web", "n1"), store.Absent))
	marked := small("web", "n1")
	now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 987654321, time.UTC))
	marked.DeletionTimestamp = &now
	events := put(t, s,
		write(marked, made[0].Revision),
		store.Write{Key: keyOf(marked), Expect: store.Previous})
	if len(events) != 2 || events[0].Type != store.Modified || events[1].Type != store.Deleted {
		t.Fatalf("events %+v", events)
	}
	if events[1].Previous != events[0].Record || events[1].Revision != events[0].Revision+1 {
		t.Errorf("the deletion does not follow the mark: %+v", events[1])
	}
	last := events[1].Record
	if got, want := last.Object.GetResourceVersion(), strconv.FormatInt(events[1].Revision, 10); got != want {
		t.Errorf("the deleted object has resourceVersion %s, want %s", got, want)
	}
	if got := events[0].Record.Object.GetResourceVersion(); got == last.Object.GetResourceVersion() {
		t.Error("the deletion changed the version before it")
	}
	if at := last.Object.GetDeletionTimestamp(); at == nil || at.Nanosecond() != 0 {
		t.Errorf("deletionTimestamp %v, want whole seconds as after a restart", at)
	}
}

func TestIdenticalWriteIsSkipped(t *testing.T) {
	s := open(t, config(t))
	put(t, s, write(podNamed("web"), store.Absent))
	before := s.Snapshot().Revision()
	again := podNamed("web")
	again.ResourceVersion = "5"
	if events := put(t, s, write(again, before)); len(events) != 0 || s.Snapshot().Revision() != before {
		t.Errorf("an identical write made %d events and revision %d (API-46)", len(events), s.Snapshot().Revision())
	}
	if events := put(t, s, store.Write{Key: store.Key{Resource: "pods", Name: "none"}, Expect: store.Any}); len(events) != 0 {
		t.Errorf("deleting nothing made %d events", len(events))
	}
}

func TestInvalidWrites(t *testing.T) {
	s := open(t, config(t))
	huge := small("huge", "")
	huge.Annotations = map[string]string{"a": strings.Repeat("x", store.MaxObject)}
	for name, w := range map[string]store.Write{
		"no name":        {Key: store.Key{Resource: "pods"}, Object: small("", "")},
		"no resource":    {Key: store.Key{Name: "web"}, Object: small("web", "")},
		"separator":      {Key: store.Key{Resource: "pods", Name: "a\x00b"}, Object: small("web", "")},
		"long name":      {Key: store.Key{Resource: "pods", Name: strings.Repeat("x", 2000)}, Object: small("web", "")},
		"large object":   write(huge, store.Any),
		"previous alone": write(small("web", ""), store.Previous),
	} {
		if _, err := s.Commit(t.Context(), store.Commit{Writes: []store.Write{w}}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if s.Snapshot().Revision() != 1 {
		t.Error("an invalid write was written")
	}
}

// Many writers, each with a counter that it increments from the revision it read: all
// revisions are there, in order, told once, and nobody's increment is lost.
func TestConcurrentWriters(t *testing.T) {
	const writers, rounds = 32, 40
	cfg := config(t)
	var told []store.Event
	batches := 0
	cfg.OnCommit = func(snapshot *store.Snapshot, events []store.Event) {
		if events[len(events)-1].Revision != snapshot.Revision() {
			t.Errorf("told of revision %d with a snapshot of %d", events[len(events)-1].Revision, snapshot.Revision())
		}
		told = append(told, events...)
		batches++
	}
	s, stop := start(t, cfg)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			key := store.Key{Resource: "pods", Namespace: "default", Name: fmt.Sprintf("counter-%d", w%4)}
			for range rounds {
				increment(t, s, key)
			}
		})
	}
	group.Wait()
	stop()
	if len(told) != writers*rounds {
		t.Fatalf("told of %d events, want %d", len(told), writers*rounds)
	}
	for i, event := range told {
		if event.Revision != int64(i+2) {
			t.Fatalf("event %d has revision %d", i, event.Revision)
		}
	}
	for i := range 4 {
		r := s.Snapshot().Get(store.Key{Resource: "pods", Namespace: "default", Name: fmt.Sprintf("counter-%d", i)})
		if got := r.Object.GetGeneration(); got != writers/4*rounds {
			t.Errorf("counter %d is at %d, want %d", i, got, writers/4*rounds)
		}
	}
	t.Logf("%d events in %d batches", len(told), batches)
}

// TestOnDurableIsCalledFirst has those who record what is on disk be told before anybody can read it,
// and answer by it.
func TestOnDurableIsCalledFirst(t *testing.T) {
	cfg := config(t)
	var s *store.Store
	var unread []int64 // how many revisions readers lack
	tell := func(snapshot *store.Snapshot, _ []store.Event) {
		unread = append(unread, snapshot.Revision()-s.Snapshot().Revision())
	}
	cfg.OnDurable, cfg.OnCommit = tell, tell
	s = open(t, cfg)
	put(t, s, write(small("web", "n1"), store.Absent))
	if !slices.Equal(unread, []int64{1, 0}) {
		t.Errorf("readers lack %v revisions when OnDurable and OnCommit are told, want 1 and 0", unread)
	}
}

func increment(t *testing.T, s *store.Store, key store.Key) {
	for {
		p, expect := small(key.Name, "n1"), store.Absent
		if have := s.Snapshot().Get(key); have != nil {
			p.Generation, expect = have.Object.GetGeneration(), have.Revision
		}
		p.Generation++
		events, err := s.Commit(t.Context(), store.Commit{Writes: []store.Write{write(p, expect)}})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		// A caller sees its write from the answer on.
		if s.Snapshot().Revision() < events[0].Revision {
			t.Errorf("snapshot of %d after an answer of %d", s.Snapshot().Revision(), events[0].Revision)
		}
		return
	}
}

// Readers go through history, in the file and in memory, while writers move its end.
func TestReaders(t *testing.T) {
	cfg := config(t)
	cfg.History = 600
	s, stop := start(t, cfg)
	var writes []store.Write
	for i := range 700 {
		writes = append(writes, write(small(fmt.Sprintf("web-%d", i%7), fmt.Sprint(i)), store.Any))
	}
	put(t, s, writes...)
	stop()
	s = open(t, cfg) // nothing is in memory now
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				from := s.Oldest() - 1
				events, err := s.Since(from)
				if err != nil && !errors.Is(err, store.ErrCompacted) {
					t.Error(err)
				}
				for i, event := range events {
					if event.Revision != from+1+int64(i) {
						t.Errorf("event %d after %d has revision %d", i, from, event.Revision)
					}
				}
				if then, err := s.At(from + 10); err == nil && then.Revision() != from+10 {
					t.Errorf("state at %d, want %d", then.Revision(), from+10)
				} else if err != nil && !errors.Is(err, store.ErrCompacted) && !errors.Is(err, store.ErrFuture) {
					t.Error(err)
				}
				if _, err := s.EventsOfOperation("test"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 300 {
		put(t, s, write(small(fmt.Sprintf("web-%d", i%7), fmt.Sprint(i)), store.Any))
	}
	close(done)
	group.Wait()
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := start(t, config(t))
		reached := make(chan error, 1)
		var group sync.WaitGroup
		group.Go(func() { reached <- s.WaitFor(t.Context(), 3) })
		put(t, s, write(small("a", ""), store.Any))
		synctest.Wait()
		if len(reached) != 0 {
			t.Error("reached revision 3 at 2")
		}
		put(t, s, write(small("b", ""), store.Any))
		if err := <-reached; err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := s.WaitFor(short, 4); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the deadline", err)
		}
		group.Go(func() { reached <- s.WaitFor(t.Context(), 4) })
		synctest.Wait()
		stop()
		if err := <-reached; !errors.Is(err, store.ErrStopped) {
			t.Errorf("%v, want stopped", err)
		}
		if _, err := s.Commit(t.Context(), store.Commit{}); !errors.Is(err, store.ErrStopped) {
			t.Errorf("commit to a stopped store: %v", err)
		}
		group.Wait()
	})
}

func TestCommitGivesUpWithItsContext(t *testing.T) {
	s, err := store.Open(t.Context(), config(t)) // nobody runs it
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller went away")
	cancel(cause)
	if _, err := s.Commit(ctx, store.Commit{}); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
}

func TestLocked(t *testing.T) {
	cfg := config(t)
	cfg.LockTimeout = time.Millisecond
	open(t, cfg)
	if _, err := store.Open(t.Context(), cfg); !errors.Is(err, store.ErrLocked) {
		t.Errorf("%v, want locked", err)
	}
}

func TestClusterUIDStays(t *testing.T) {
	cfg := config(t)
	s, stop := start(t, cfg)
	uid := s.ClusterUID()
	stop()
	cfg.ClusterUID = "another"
	if again := open(t, cfg).ClusterUID(); again != uid || uid == "" {
		t.Errorf("cluster %q became %q", uid, again)
	}
}

// Compaction takes more revisions than one commit may sweep, and a restart in between.
func TestCompactionInSteps(t *testing.T) {
	const pods, rounds = 10, 200
	cfg := config(t)
	s, stop := start(t, cfg)
	keep := put(t, s, write(small("kept", "old"), store.Absent))[0]
	var writes []store.Write
	for i := range pods * rounds {
		writes = append(writes, write(small(fmt.Sprintf("web-%d", i%pods), fmt.Sprint(i)), store.Any))
	}
	put(t, s, writes...)
	put(t, s, store.Write{Key: keyOf(small("web-0", "")), Expect: store.Any})
	head := s.Snapshot().Revision()
	if err := s.Compact(t.Context(), head-5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Since(head - 6); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("%v, want compacted", err)
		}
		events, err := s.Since(head - 5)
		if err != nil || len(events) != 5 || events[0].Previous == nil {
			t.Fatalf("%d events, %v; want 5, the first with what it replaced", len(events), err)
		}
		if before := events[0].Previous.Revision; before > head-5 {
			t.Errorf("previous version at %d, want a compacted one", before)
		}
		if have := s.Snapshot().Get(keep.Record.Key); have == nil || have.Revision != keep.Revision {
			t.Errorf("compaction lost a live object: %+v", have)
		}
		stop()
		s, stop = start(t, cfg)
	}
	defer stop()
	// The sweep goes on by itself; what is left is the live versions and the history.
	if left := historyRecords(t, s, stop, cfg.Path); left != pods+1+5 {
		t.Errorf("history has %d records, want %d", left, pods+1+5)
	}
}

// historyRecords counts what is in the file once the sweep has nothing to do.
func historyRecords(t *testing.T, s *store.Store, stop func(), path string) int {
	t.Helper()
	for range 50 { // each takes at least 128 revisions along
		put(t, s, write(small("same", ""), store.Any))
		if err := s.Compact(t.Context(), s.Oldest()-1); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, db)
	n := 0
	if err := db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("history")).ForEach(func(_, _ []byte) error { n++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n - 1 // same
}
