package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// change is an event as the model knows it.
type change struct {
	revision         int64
	typ              store.EventType
	key              store.Key
	content, before  string
	previousRevision int64
	cause            string
}

// model is the store in plain maps and slices.
type model struct {
	revision, compacted int64
	content             map[store.Key]string
	at                  map[store.Key]int64
	changes             []change // of all time
	history             int64
}

func newModel(history int) *model {
	return &model{revision: 1, compacted: 1, content: map[store.Key]string{}, at: map[store.Key]int64{}, history: int64(history)}
}

type modelWrite struct {
	key     store.Key
	expect  int64
	content string // empty deletes
}

// commit is what the writes lead to; false, and nothing has happened, for a conflict.
func (m *model) commit(writes []modelWrite, cause string) ([]change, bool) {
	content, at, revision := maps.Clone(m.content), maps.Clone(m.at), m.revision
	var made []change
	for _, w := range writes {
		switch {
		case w.expect == store.Any, w.expect == store.Previous:
		case at[w.key] != w.expect:
			return nil, false
		}
		if content[w.key] == w.content {
			continue
		}
		revision++
		c := change{revision: revision, key: w.key, content: w.content, before: content[w.key], previousRevision: at[w.key], cause: cause}
		switch {
		case w.content == "":
			c.typ, c.content = store.Deleted, c.before
			delete(content, w.key)
			delete(at, w.key)
		case c.before == "":
			c.typ = store.Added
		default:
			c.typ = store.Modified
		}
		if w.content != "" {
			content[w.key], at[w.key] = w.content, revision
		}
		made = append(made, c)
	}
	m.content, m.at, m.revision = content, at, revision
	m.changes = append(m.changes, made...)
	m.compacted = max(m.compacted, m.revision-m.history)
	return made, true
}

// state is the contents at a revision, by replay from the beginning.
func (m *model) state(revision int64) (map[store.Key]string, map[store.Key]int64) {
	content, at := map[store.Key]string{}, map[store.Key]int64{}
	for _, c := range m.changes {
		if c.revision > revision {
			break
		}
		if c.typ == store.Deleted {
			delete(content, c.key)
			delete(at, c.key)
		} else {
			content[c.key], at[c.key] = c.content, c.revision
		}
	}
	return content, at
}

func podWith(key store.Key, content string) kinds.Object {
	if content == "" {
		return nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, ResourceVersion: "77"},
		Spec:       corev1.PodSpec{NodeName: content},
	}
}

func TestAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SampledFrom([]int{1, 3, 10, 1000}).Draw(rt, "history")
		cfg := store.Config{Path: filepath.Join(t.TempDir(), "store.db"), NoSync: true, History: history}
		s, stop := start(t, cfg)
		defer func() { stop() }()
		m := newModel(history)
		rt.Repeat(map[string]func(*rapid.T){
			"commit":  func(rt *rapid.T) { checkCommit(rt, s, m) },
			"since":   func(rt *rapid.T) { checkSince(rt, s, m) },
			"at":      func(rt *rapid.T) { checkAt(rt, s, m) },
			"cause":   func(rt *rapid.T) { checkCause(rt, s, m) },
			"compact": func(rt *rapid.T) { checkCompact(rt, s, m) },
			// From then on history is read from the file.
			"reopen": func(*rapid.T) {
				stop()
				s, stop = start(t, cfg)
			},
			"": func(rt *rapid.T) {
				checkSnapshot(rt, s.Snapshot(), m, m.revision)
				if s.Oldest() != m.compacted+1 {
					rt.Fatalf("oldest %d, want %d", s.Oldest(), m.compacted+1)
				}
			},
		})
	})
}

func drawKey(rt *rapid.T) store.Key {
	return store.Key{
		Resource:  rapid.SampledFrom([]string{"pods", "pods.metrics", "a"}).Draw(rt, "resource"),
		Namespace: rapid.SampledFrom([]string{"", "a", "a-b", "b"}).Draw(rt, "namespace"),
		Name:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"),
	}
}

func checkCommit(rt *rapid.T, s *store.Store, m *model) {
	var writes []modelWrite
	var commit store.Commit
	commit.Cause = rapid.SampledFrom([]string{"", "op-1", "op-2", "op-" + strconv.Itoa(len(m.changes))}).Draw(rt, "cause")
	for range rapid.IntRange(0, 4).Draw(rt, "writes") {
		w := modelWrite{key: drawKey(rt), content: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(rt, "content")}
		w.expect = rapid.SampledFrom([]int64{store.Absent, store.Any, m.at[w.key], m.at[w.key], m.revision - 1, store.Previous}).Draw(rt, "expect")
		earlier := func(e modelWrite) bool { return e.key == w.key }
		if w.expect == store.Previous && !slices.ContainsFunc(writes, earlier) {
			w.expect = store.Any
		}
		writes = append(writes, w)
		commit.Writes = append(commit.Writes, store.Write{Key: w.key, Expect: w.expect, Object: podWith(w.key, w.content)})
	}
	want, ok := m.commit(writes, commit.Cause)
	got, err := s.Commit(context.Background(), commit)
	if ok != (err == nil) || !ok && !errors.Is(err, store.ErrConflict) {
		rt.Fatalf("commit %+v: %v, the model says %v", writes, err, ok)
	}
	checkEvents(rt, got, want)
}

func checkEvents(rt *rapid.T, got []store.Event, want []change) {
	rt.Helper()
	if len(got) != len(want) {
		rt.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i, c := range want {
		e := got[i]
		if e.Revision != c.revision || e.Type != c.typ || e.Cause != c.cause {
			rt.Fatalf("event %+v, want %+v", e, c)
		}
		checkRecord(rt, e.Record, c.key, c.revision, c.content)
		if (e.Previous == nil) != (c.typ == store.Added) {
			rt.Fatalf("%s event with previous %v", e.Type, e.Previous)
		}
		if e.Previous != nil {
			checkRecord(rt, e.Previous, c.key, c.previousRevision, c.before)
		}
	}
}

func checkRecord(rt *rapid.T, r *store.Record, key store.Key, revision int64, content string) {
	rt.Helper()
	if r == nil || r.Key != key || r.Revision != revision {
		rt.Fatalf("record %+v, want %s at %d", r, key, revision)
	}
	decoded, err := kinds.Decode(r.Data)
	if err != nil || decoded.GetResourceVersion() != "" {
		rt.Fatalf("%s: data: %v, resourceVersion %q", key, err, decoded.GetResourceVersion())
	}
	for _, obj := range []kinds.Object{decoded, r.Object} {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.Spec.NodeName != content || pod.Name != key.Name || pod.Kind != "Pod" || pod.APIVersion != "v1" {
			rt.Fatalf("%s at %d: %+v, want content %q", key, revision, obj, content)
		}
	}
	if r.Object.GetResourceVersion() != fmt.Sprint(revision) {
		rt.Fatalf("%s: resourceVersion %s, want %d", key, r.Object.GetResourceVersion(), revision)
	}
}

func checkSnapshot(rt *rapid.T, got *store.Snapshot, m *model, revision int64) {
	rt.Helper()
	if got.Revision() != revision {
		rt.Fatalf("snapshot of revision %d, want %d", got.Revision(), revision)
	}
	content, at := m.content, m.at
	if revision != m.revision {
		content, at = m.state(revision)
	}
	for _, resource := range []string{"pods", "pods.metrics", "a"} {
		for _, namespace := range []string{"", "a", "a-b", "b", "none"} {
			var keys []store.Key
			for key := range content {
				if key.Resource == resource && (namespace == "" || key.Namespace == namespace) {
					keys = append(keys, key)
				}
			}
			slices.SortFunc(keys, store.Key.Compare)
			after := ""
			if n := rapid.IntRange(0, len(keys)).Draw(rt, "after"); n > 0 {
				after = keys[n-1].Path()
				keys = keys[n:]
			}
			var found []store.Key
			for r := range got.Scan(resource, namespace, after) {
				checkRecord(rt, r, r.Key, at[r.Key], content[r.Key])
				if got.Get(r.Key) != r {
					rt.Fatalf("get %s is not what scan yields", r.Key)
				}
				found = append(found, r.Key)
			}
			if !slices.Equal(found, keys) {
				rt.Fatalf("scan(%s, %q, %q) = %v, want %v", resource, namespace, after, found, keys)
			}
			if after == "" && got.Count(resource, namespace) != len(keys) {
				rt.Fatalf("count(%s, %q) = %d, want %d", resource, namespace, got.Count(resource, namespace), len(keys))
			}
		}
	}
}

func checkSince(rt *rapid.T, s *store.Store, m *model) {
	revision := rapid.Int64Range(0, m.revision+2).Draw(rt, "revision")
	limit := rapid.SampledFrom([]int{1, 2, 1 << 40}).Draw(rt, "limit")
	got, err := s.SinceAtMost(revision, limit)
	if revision < m.compacted {
		checkCompacted(rt, err, m)
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	var want []change
	for _, c := range m.changes {
		if c.revision > revision && len(want) < limit {
			want = append(want, c)
		}
	}
	checkEvents(rt, got, want)
}

func checkCompacted(rt *rapid.T, err error, m *model) {
	rt.Helper()
	var compacted *store.CompactedError
	if !errors.Is(err, store.ErrCompacted) || !errors.As(err, &compacted) || compacted.Oldest != m.compacted+1 {
		rt.Fatalf("%v, want compacted with oldest %d", err, m.compacted+1)
	}
}

func checkAt(rt *rapid.T, s *store.Store, m *model) {
	revision := rapid.Int64Range(0, m.revision+2).Draw(rt, "revision")
	got, err := s.At(revision)
	switch {
	case revision < m.compacted:
		checkCompacted(rt, err, m)
	case revision > m.revision:
		if !errors.Is(err, store.ErrFuture) {
			rt.Fatalf("%v, want future", err)
		}
	case err != nil:
		rt.Fatal(err)
	default:
		checkSnapshot(rt, got, m, revision)
	}
}

func checkCause(rt *rapid.T, s *store.Store, m *model) {
	cause := rapid.SampledFrom([]string{"", "op-1", "op-2", "op-3", "never"}).Draw(rt, "cause")
	var want []change
	for _, c := range m.changes {
		if c.cause == cause && cause != "" && c.revision > m.compacted {
			want = append(want, c)
		}
	}
	got, err := s.EventsOfOperation(cause)
	if err != nil {
		rt.Fatal(err)
	}
	checkEvents(rt, got, want)
}

func checkCompact(rt *rapid.T, s *store.Store, m *model) {
	revision := rapid.Int64Range(0, m.revision+1).Draw(rt, "revision")
	err := s.Compact(context.Background(), revision)
	if revision > m.revision {
		if !errors.Is(err, store.ErrFuture) {
			rt.Fatalf("%v, want future", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	m.compacted = max(m.compacted, revision)
}
