package expiry

import (
	"slices"
	"time"

	"github.com/podfall/podfall/services/apiserver/store"
)

const (
	// TTL is how long an Event is kept after its last write: upstream's --event-ttl.
	TTL = time.Hour
	// leaseSlack is how much longer than TTL a lease lasts, so that Events that are written in that
	// time can share it. maxMembers is the largest number of Events in a lease. Both are those of
	// upstream's lease manager.
	leaseSlack = time.Minute
	maxMembers = 1000
)

// leases say when Events expire. They are pure: time is passed in.
type leases struct {
	byKey map[store.Key]*lease
	// queue has every lease that has not ended, ordered by its end.
	queue []*lease
}

// lease is a time at which some Events expire together. members maps each to the revision of its
// last write.
type lease struct {
	ends    time.Time
	members map[store.Key]int64
}

// grant lets an Event expire TTL after now, or at most leaseSlack later.
func (l *leases) grant(key store.Key, revision int64, now time.Time) {
	l.release(key)
	last := len(l.queue) - 1
	if last < 0 || l.queue[last].ends.Before(now.Add(TTL)) || len(l.queue[last].members) == maxMembers {
		l.queue = append(l.queue, &lease{ends: now.Add(TTL + leaseSlack), members: map[store.Key]int64{}})
		last++
	}
	l.queue[last].members[key] = revision
	l.byKey[key] = l.queue[last]
}

// release removes an Event from its lease.
func (l *leases) release(key store.Key) {
	if held := l.byKey[key]; held != nil {
		delete(held.members, key)
		delete(l.byKey, key)
	}
}

// next returns the end of the first lease that has Events, and the writes that remove them; the
// zero time if there is none.
func (l *leases) next() (ends time.Time, removal []store.Write) {
	for len(l.queue) > 0 && len(l.queue[0].members) == 0 {
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	if len(l.queue) == 0 {
		return time.Time{}, nil
	}
	for key, revision := range l.queue[0].members {
		removal = append(removal, store.Write{Key: key, Expect: revision})
	}
	slices.SortFunc(removal, func(a, b store.Write) int { return a.Key.Compare(b.Key) })
	return l.queue[0].ends, removal
}
