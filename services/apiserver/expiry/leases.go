package expiry

import (
	"slices"
	"time"

	"github.com/podfall/podfall/services/apiserver/store"
)

const (
	// TTL is how long an Event is kept after its last write: upstream's --event-ttl.
	TTL = time.Hour
	// shared is how much longer a lease lasts, so that what is written in that time can
	// share it, and mostWith how many Events one has at most: upstream's lease manager.
	shared   = time.Minute
	mostWith = 1000
)

// leases say until when Events are kept. They are pure: time comes in as a value.
type leases struct {
	of map[store.Key]*lease
	// queue has every lease that has not ended, the first to end first.
	queue []*lease
}

// lease is when some Events end together, each at the revision of its last write.
type lease struct {
	ends    time.Time
	members map[store.Key]int64
}

// grant keeps an Event for TTL or a little longer from now on.
func (l *leases) grant(key store.Key, revision int64, now time.Time) {
	l.release(key)
	last := len(l.queue) - 1
	if last < 0 || l.queue[last].ends.Before(now.Add(TTL)) || len(l.queue[last].members) == mostWith {
		l.queue = append(l.queue, &lease{ends: now.Add(TTL + shared), members: map[store.Key]int64{}})
		last++
	}
	l.queue[last].members[key] = revision
	l.of[key] = l.queue[last]
}

// release forgets an Event.
func (l *leases) release(key store.Key) {
	if held := l.of[key]; held != nil {
		delete(held.members, key)
		delete(l.of, key)
	}
}

// next is when the first lease ends that has Events, and what removes them; the zero time
// when there is none.
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
