package cronjob

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Memory is what CronJobs have to say of the Jobs that this process has made, which a view may not
// show yet, nor the API know.
type Memory struct {
	mu   sync.Mutex
	last map[types.UID]said
}

// said is what a CronJob has to say since its last Job; stored is whether the API has it.
type said struct {
	status batchv1.CronJobStatus
	stored bool
}

// NewMemory is one of nothing.
func NewMemory() *Memory { return &Memory{last: map[types.UID]said{}} }

// Made notes that the Job of a time has been made: from now on the CronJob has to say this.
func (m *Memory) Made(uid types.UID, status batchv1.CronJobStatus) { m.note(uid, said{status: status}) }

// Stored notes that a CronJob says this of itself from now on.
func (m *Memory) Stored(uid types.UID, status batchv1.CronJobStatus) {
	m.note(uid, said{status: status, stored: true})
}

func (m *Memory) note(uid types.UID, last said) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[uid] = last
}

// Forget forgets a CronJob that is gone.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, uid)
}

// ViewOf is what is known of a CronJob that controls these Jobs, also when it is shown as it was
// before the last of them was made.
func (m *Memory) ViewOf(shown *batchv1.CronJob, jobs []*batchv1.Job) View {
	m.mu.Lock()
	last := m.last[shown.UID]
	m.mu.Unlock()
	v := ViewOf(shown, jobs)
	made, shows := last.status.LastScheduleTime, shown.Status.LastScheduleTime
	if made == nil || shows != nil && !shows.Before(made) {
		return v
	}
	v.CronJob = shown.DeepCopy()
	v.CronJob.Status = last.status
	if last.stored {
		v.Said = last.status
	}
	return v
}
