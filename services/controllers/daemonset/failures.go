package daemonset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Failures is how long the failed pods of a node are left alone, so that a pod that always
// fails is not made again at once: 1 s, twice as long each time, up to 15 min.
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

// NewFailures are none.
func NewFailures() *Failures { return &Failures{since: map[failure]held{}} }

// Hold is how long it still takes at now; it is forgotten after a long time of peace.
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

// More notes one more failure.
func (f *Failures) More(set types.UID, node string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := failure{set, node}
	f.since[of] = held{last: now, wait: min(max(2*f.since[of].wait, firstHold), mostHold)}
}
