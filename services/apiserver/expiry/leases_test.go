package expiry

import (
	"fmt"
	"testing"
	"time"

	"github.com/podfall/podfall/services/apiserver/store"
)

func named(i int) store.Key {
	return store.Key{Resource: Resource, Namespace: "default", Name: fmt.Sprint("e", i)}
}

// TestLeases grants and releases many, and takes each lease as it ends: nothing goes before
// its hour or a minute after, no commit is larger than a lease, and nothing is left.
func TestLeases(t *testing.T) {
	now := time.Unix(0, 0)
	l := leases{byKey: map[store.Key]*lease{}}
	granted := map[store.Key]time.Time{}
	grant := func(i int) {
		l.grant(named(i), int64(i), now)
		granted[named(i)] = now
	}
	for i := range 2500 { // 1000 + 1000 + 500
		grant(i)
	}
	now = now.Add(leaseSlack)
	grant(2500) // shares the last
	now = now.Add(1)
	grant(2501)
	grant(0) // again, later
	l.release(named(1))
	delete(granted, named(1))
	var sizes []int
	for {
		ends, removal := l.next()
		if len(removal) == 0 {
			break
		}
		sizes = append(sizes, len(removal))
		for _, write := range removal {
			kept := ends.Sub(granted[write.Key])
			if write.Object != nil || kept < TTL || kept > TTL+leaseSlack {
				t.Fatalf("%v goes after %v: %+v", write.Key, kept, write)
			}
			delete(granted, write.Key)
			l.release(write.Key)
		}
	}
	if fmt.Sprint(sizes) != "[998 1000 501 2]" || len(granted) > 0 || len(l.byKey) > 0 || len(l.queue) > 0 {
		t.Errorf("commits of %v, %d are left, %d and %d in memory", sizes, len(granted), len(l.byKey), len(l.queue))
	}
}

// TestRemovalExpectsTheLastWrite keeps an Event that is written while it is being removed.
func TestRemovalExpectsTheLastWrite(t *testing.T) {
	now := time.Unix(0, 0)
	l := leases{byKey: map[store.Key]*lease{}}
	l.grant(named(1), 5, now)
	l.grant(named(1), 7, now)
	if _, removal := l.next(); len(removal) != 1 || removal[0].Expect != 7 {
		t.Errorf("removal %+v, want of revision 7", removal)
	}
}
