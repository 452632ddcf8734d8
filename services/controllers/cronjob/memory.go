package cronjob

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/view"
)

// Memory is what CronJobs have to say of the times that this process has dealt with, which a view
// may not show yet, nor the API know.
type Memory struct {
	mu   sync.Mutex
	last map[view.Key]said
}

// said is what a CronJob has to say.
type said struct {
	cronJob types.UID
	status  batchv1.CronJobStatus
	// stored is the revision since which the API has it; 0 when that is not known.
	stored int64
}

// NewMemory is one of nothing.
func NewMemory() *Memory { return &Memory{last: map[view.Key]said{}} }

// Handled notes that a time is dealt with: its Job has been made, now or before, or never will
// be, since the namespace is being deleted. From now on the CronJob has to say this.
func (m *Memory) Handled(cronJob *batchv1.CronJob, status batchv1.CronJobStatus) {
	m.note(view.KeyOf(cronJob), said{cronJob: cronJob.UID, status: status})
}

// Stored notes a CronJob as the API has answered that its status is stored.
func (m *Memory) Stored(cronJob *batchv1.CronJob) {
	m.note(view.KeyOf(cronJob), said{cronJob: cronJob.UID, status: cronJob.Status, stored: view.Revision(cronJob)})
}

func (m *Memory) note(key view.Key, last said) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[key] = last
}

// Forget forgets a CronJob that is gone.
func (m *Memory) Forget(key view.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, key)
}

// ViewOf is what is known of a CronJob that controls these Jobs, also when it is shown as it was
// before it had the last to say.
func (m *Memory) ViewOf(shown *batchv1.CronJob, jobs []*batchv1.Job) View {
	v := ViewOf(shown, jobs)
	last, newer := m.since(shown)
	if !newer {
		return v
	}
	v.CronJob = shown.DeepCopy()
	v.CronJob.Status = last.status
	if last.stored > 0 {
		v.Said = last.status
	}
	return v
}

// since is what a CronJob has to say that is newer than what is shown. Anything else is forgotten:
// what is shown after that, be it an earlier time, is meant.
func (m *Memory) since(shown *batchv1.CronJob) (last said, newer bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := view.KeyOf(shown)
	if last = m.last[key]; last.newerThan(shown) {
		return last, true
	}
	delete(m.last, key)
	return said{}, false
}

// newerThan reports whether a CronJob is shown as it was before it had this to say. Of what the
// API may have taken without an answer the time tells.
func (s said) newerThan(shown *batchv1.CronJob) bool {
	switch {
	case s.cronJob != shown.UID:
		return false
	case s.stored > 0:
		return view.Revision(shown) < s.stored
	}
	shows := shown.Status.LastScheduleTime
	return shows == nil || shows.Before(s.status.LastScheduleTime)
}
