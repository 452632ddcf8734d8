package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// FailureBackoff delays the deletion of failed pods of a node, so that a pod that always fails is
// not replaced at once: 1 s, doubled with each failure, up to 15 min.
type Failures struct {
	mu    sync.Mutex
	since map[failure]held
}

type failure struct {
	set  types.UID
	node string
}

type held struct {
	last time.Time
	wait time.Duration
}

const (
	firstHold = time.Second
	mostHold  = 15 * time.Minute
)

// NewFailureBackoff returns one without failures.
func NewFailures() *Failures { return &Failures{since: map[failure]held{}} }

// Remaining returns how long the delay still lasts at now. An entry is forgotten after 30 min
// without a failure.
func (f *Failures) Hold(set types.UID, node string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := failure{set, node}
	known, there := f.since[of]
	if !there {
		return 0
	}
	if now.Sub(known.last) > 2*mostHold {
		delete(f.since, of)
		return 0
	}
	return max(known.last.Add(known.wait).Sub(now), 0)
}

// Increase records one more failure.
func (f *Failures) More(set types.UID, node string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := failure{set, node}
	f.since[of] = held{last: now, wait: min(max(2*f.since[of].wait, firstHold), mostHold)}
}
