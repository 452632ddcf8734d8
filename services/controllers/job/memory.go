package job

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/view"
)

// Memory is what is known of Jobs and in no object: the failures of their pods, and the pods
// that were let go of and are still in the view with their finalizer.
type Memory struct {
	mu    sync.Mutex
	known map[view.Key]*recollection
}

type recollection struct {
	job      types.UID
	failures Failures
	freed    map[types.UID]bool
}

// NewMemory is an empty one.
func NewMemory() *Memory { return &Memory{known: map[view.Key]*recollection{}} }

func (m *Memory) at(key view.Key, job types.UID) *recollection {
	if m.known[key] == nil || m.known[key].job != job {
		m.known[key] = &recollection{job: job, freed: map[types.UID]bool{}}
	}
	return m.known[key]
}

// Of is what is known of a Job, which may be another than the one that had its name before.
func (m *Memory) Of(key view.Key, job types.UID) (Failures, map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.at(key, job)
	freed := make(map[types.UID]bool, len(known.freed))
	for uid := range known.freed {
		freed[uid] = true
	}
	return known.failures, freed
}

// Remember notes the failures that are counted now.
func (m *Memory) Remember(key view.Key, job types.UID, failures Failures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key, job).failures = failures
}

// Free notes that a pod is let go of.
func (m *Memory) Free(key view.Key, job, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key, job).freed[pod] = true
}

// Seen notes that the view shows a pod without its finalizer, or no more, or that it has kept
// it.
func (m *Memory) Seen(key view.Key, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.known[key]; known != nil {
		delete(known.freed, pod)
	}
}

// Forget drops all that is known of a Job that is gone.
func (m *Memory) Forget(key view.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}
