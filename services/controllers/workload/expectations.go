package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Expectations is a ledger of what a controller has asked for and has not seen in its view
// yet, by the key of the object for which it asked. While something is expected the view is
// known to be old, and nothing more is asked for (UIDTrackingControllerExpectations).
type Expectations struct {
	mu    sync.Mutex
	owner map[types.NamespacedName]*expected
}

type expected struct {
	creations int
	deletions map[types.UID]bool
	since     time.Time
}

// expectFor is how long an expectation is believed in: after that the view is trusted again.
const expectFor = 5 * time.Minute

// NewExpectations is an empty ledger.
func NewExpectations() *Expectations {
	return &Expectations{owner: map[types.NamespacedName]*expected{}}
}

// Creations notes that n objects were asked for; what was expected before is forgotten.
func (e *Expectations) Creations(key types.NamespacedName, n int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner[key] = &expected{creations: n, since: now}
}

// Deletions notes that objects were asked to go; what was expected before is forgotten.
func (e *Expectations) Deletions(key types.NamespacedName, uids []types.UID, now time.Time) {
	e.Both(key, 0, uids, now)
}

// Both notes creations and deletions.
func (e *Expectations) Both(key types.NamespacedName, n int, uids []types.UID, now time.Time) {
	gone := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		gone[uid] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owner[key] = &expected{creations: n, deletions: gone, since: now}
}

// Created notes that one object has come, or never will.
func (e *Expectations) Created(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.owner[key]; known != nil {
		known.creations--
	}
}

// Deleted notes that an object goes, or never will.
func (e *Expectations) Deleted(key types.NamespacedName, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.owner[key]; known != nil {
		delete(known.deletions, uid)
	}
}

// Met reports whether nothing is expected any more, or not for sure.
func (e *Expectations) Met(key types.NamespacedName, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.owner[key]
	return known == nil || (known.creations <= 0 && len(known.deletions) == 0) || now.Sub(known.since) > expectFor
}

// Left is how long the expectations of a key are still believed in.
func (e *Expectations) Left(key types.NamespacedName, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.owner[key]
	if known == nil {
		return 0
	}
	return max(known.since.Add(expectFor).Sub(now), 0)
}

// Forget drops all that is expected for a key.
func (e *Expectations) Forget(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owner, key)
}
