package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// FailureBackoff delays the deletion of failed pods of a node, so that a pod that always fails is
// not replaced at once: 1 s, doubled with each failure, up to 15 min.
type FailureBackoff struct {
	mu      sync.Mutex
	entries map[backoffKey]backoffEntry
}

type backoffKey struct {
	set  types.UID
	node string
}

type backoffEntry struct {
	last time.Time
	wait time.Duration
}

const (
	minBackoff = time.Second
	maxBackoff = 15 * time.Minute
)

// NewFailureBackoff returns one without failures.
func NewFailureBackoff() *FailureBackoff {
	return &FailureBackoff{entries: map[backoffKey]backoffEntry{}}
}

// Remaining returns how long the delay still lasts at now. An entry is forgotten after 30 min
// without a failure.
func (f *FailureBackoff) Remaining(set types.UID, node string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := backoffKey{set, node}
	known, there := f.entries[of]
	if !there {
		return 0
	}
	if now.Sub(known.last) > 2*maxBackoff {
		delete(f.entries, of)
		return 0
	}
	return max(known.last.Add(known.wait).Sub(now), 0)
}

// Increase records one more failure.
func (f *FailureBackoff) Increase(set types.UID, node string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := backoffKey{set, node}
	f.entries[of] = backoffEntry{last: now, wait: min(max(2*f.entries[of].wait, minBackoff), maxBackoff)}
}
