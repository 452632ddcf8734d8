package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Expectations hold what a controller has asked for and has not seen in its view yet, by the key of
// the owner. While something is expected, the view is known to be stale, and nothing more is asked
// for (UIDTrackingControllerExpectations).
type Expectations struct {
	mu    sync.Mutex
	owner map[types.NamespacedName]*expected
}

type expected struct {
	creations int
	deletions map[types.UID]bool
	since     time.Time
}

// expectationTimeout is how long an expectation holds. After that the view is trusted again.
const expectationTimeout = 5 * time.Minute

// NewExpectations returns empty expectations.
func NewExpectations() *Expectations {
	return &Expectations{owner: map[types.NamespacedName]*expected{}}
}

// ExpectCreations replaces the expectations of a key by n creations.
func (e *Expectations) ExpectCreations(key types.NamespacedName, n int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner[key] = &expected{creations: n, since: now}
}

// ExpectDeletions replaces the expectations of a key by deletions.
func (e *Expectations) ExpectDeletions(key types.NamespacedName, uids []types.UID, now time.Time) {
	e.Expect(key, 0, uids, now)
}

// Expect replaces the expectations of a key by creations and deletions.
func (e *Expectations) Expect(key types.NamespacedName, n int, uids []types.UID, now time.Time) {
	gone := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		gone[uid] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner[key] = &expected{creations: n, deletions: gone, since: now}
}

// CreationObserved says that one object was created, or never will be.
func (e *Expectations) CreationObserved(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.owner[key]; known != nil {
		known.creations--
	}
}

// DeletionObserved says that an object is being deleted, or never will be.
func (e *Expectations) DeletionObserved(key types.NamespacedName, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.owner[key]; known != nil {
		delete(known.deletions, uid)
	}
}

// Satisfied reports whether nothing is expected any more, or the expectation has timed out.
func (e *Expectations) Satisfied(key types.NamespacedName, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.owner[key]
	return known == nil || (known.creations <= 0 && len(known.deletions) == 0) || now.Sub(known.since) > expectationTimeout
}

// Remaining returns how long the expectations of a key still hold.
func (e *Expectations) Remaining(key types.NamespacedName, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.owner[key]
	if known == nil {
		return 0
	}
	return max(known.since.Add(expectationTimeout).Sub(now), 0)
}

// Forget drops the expectations of a key.
func (e *Expectations) Forget(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owner, key)
}
