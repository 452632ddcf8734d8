package cronjob

import (
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Memory is what this process has told the API of CronJobs, which a view may not show yet.
type Memory struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// NewMemory is one of nothing.
func NewMemory() *Memory { return &Memory{last: map[types.UID]time.Time{}} }

// Stored notes that a CronJob says this of itself from now on.
func (m *Memory) Stored(uid types.UID, status batchv1.CronJobStatus) {
	if status.LastScheduleTime == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[uid] = status.LastScheduleTime.Time
}

// Last is the last time for which a Job was made; the zero time when that is not known.
func (m *Memory) Last(uid types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[uid]
}

// Forget forgets a CronJob that is gone.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, uid)
}
