package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podfall/podfall/services/apiserver/store"
)

// TestMemoryAgreesWithStore gives both the same commits, and asks both the same.
func TestMemoryAgreesWithStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		kept := open(t, config(t))
		var told []store.Event
		m := store.NewMemory(nil, 1000, func(_ *store.Snapshot, events []store.Event) { told = append(told, events...) })
		for i := range rapid.IntRange(1, 30).Draw(rt, "commits") {
			if rapid.IntRange(0, 9).Draw(rt, "crash") == 0 {
				m = store.NewMemory(m.Image(), 1000, func(_ *store.Snapshot, events []store.Event) { told = append(told, events...) })
			}
			var here, there []store.Write
			for range rapid.IntRange(1, 3).Draw(rt, "writes") {
				key, expect := drawKey(rt), rapid.SampledFrom([]int64{store.Absent, store.Any, store.Any, int64(i)}).Draw(rt, "expect")
				w := store.Write{Key: key, Expect: expect}
				v := w
				if content := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "content"); content != "" {
					w.Object, v.Object = podWith(key, content), podWith(key, content)
				}
				here, there = append(here, w), append(there, v)
			}
			cause := fmt.Sprint(i % 5)
			want, wantErr := kept.Commit(t.Context(), store.Commit{Writes: here, Cause: cause})
			got, gotErr := m.Commit(t.Context(), store.Commit{Writes: there, Cause: cause})
			if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
				rt.Fatalf("commit: %v, want %v", gotErr, wantErr)
			}
			sameEvents(rt, got, want)
		}
		all, err := kept.Since(1)
		if err != nil {
			rt.Fatal(err)
		}
		sameEvents(rt, told, all)
		from := rapid.Int64Range(1, m.Snapshot().Revision()).Draw(rt, "from")
		want, _ := kept.SinceAtMost(from, 7)
		got, err := m.SinceAtMost(from, 7)
		if err != nil {
			rt.Fatal(err)
		}
		sameEvents(rt, got, want)
		want, _ = kept.EventsOfOperation("1")
		got, _ = m.EventsOfOperation("1")
		sameEvents(rt, got, want)
		then, err := kept.At(from)
		now, nowErr := m.At(from)
		if err != nil || nowErr != nil {
			rt.Fatal(err, nowErr)
		}
		if a, b := slices.Collect(now.Scan("pods", "", "")), slices.Collect(then.Scan("pods", "", "")); !reflect.DeepEqual(a, b) {
			rt.Fatalf("at %d: %v, want %v", from, a, b)
		}
	})
}

func sameEvents(rt *rapid.T, got, want []store.Event) {
	rt.Helper()
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		rt.Fatalf("events\n%v, want\n%v", got, want)
	}
}

// TestMemoryForgets has more events than it is to keep: what is older is compacted, and an
// image from before has what it had.
func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	m := store.NewMemory(nil, 2, nil)
	var first *store.Image
	for i := range 9 {
		pod := small("p", fmt.Sprint(i))
		if _, err := m.Commit(t.Context(), store.Commit{Writes: []store.Write{write(pod, store.Any)}, Cause: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = m.Image()
		}
	}
	if _, err := m.SinceAtMost(m.Oldest()-2, 1); err == nil {
		t.Error("the history before the oldest was read")
	}
	events, err := m.SinceAtMost(m.Oldest()-1, 100)
	if err != nil || len(events) == 0 || events[0].Revision != m.Oldest() || events[len(events)-1].Revision != 10 {
		t.Errorf("events %v, %v", events, err)
	}
	if gone, _ := m.EventsOfOperation("0"); len(gone) != 0 {
		t.Errorf("a forgotten cause has %v", gone)
	}
	if back := store.NewMemory(first, 2, nil); back.Snapshot().Revision() != 2 || back.Snapshot().Len() != 1 {
		t.Errorf("the image is at %d", back.Snapshot().Revision())
	}
}

// TestMemoryCompacts has a store be asked to forget: the next commit keeps the last events
// alone, and those after it are kept as ever.
func TestMemoryCompacts(t *testing.T) {
	t.Parallel()
	m := store.NewMemory(nil, 100, nil)
	commit := func() {
		t.Helper()
		pod := small("p", fmt.Sprint(m.Snapshot().Revision()))
		if _, err := m.Commit(t.Context(), store.Commit{Writes: []store.Write{write(pod, store.Any)}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		commit()
	}
	m.Compact(2)
	if m.Oldest() != 2 {
		t.Errorf("before the next commit the oldest is %d", m.Oldest())
	}
	commit()
	commit()
	if m.Oldest() != 6 || m.Snapshot().Revision() != 8 {
		t.Errorf("the oldest is %d at %d, want 6 at 8", m.Oldest(), m.Snapshot().Revision())
	}
	if events, err := m.SinceAtMost(5, 100); err != nil || len(events) != 3 {
		t.Errorf("events %v, %v", events, err)
	}
	if _, err := m.SinceAtMost(4, 100); err == nil {
		t.Error("the history before the compaction was read")
	}
}
