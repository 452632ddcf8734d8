package cronjob

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/view"
)

// Memory keeps the statuses of CronJobs after the times that this process has handled. A view may
// not show them yet, nor the API have them.
type Memory struct {
	mu   sync.Mutex
	last map[view.Key]statusRecord
}

// statusRecord is a status that a CronJob should have.
type statusRecord struct {
	cronJob types.UID
	status  batchv1.CronJobStatus
	// stored is the revision since which the API has the status; 0 if that is not known.
	stored int64
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{last: map[view.Key]statusRecord{}} }

// RecordHandled records that a time is handled: its Job was created, now or earlier, or never will
// be, because the namespace is being deleted. From now on the CronJob should have this status.
func (m *Memory) RecordHandled(cronJob *batchv1.CronJob, status batchv1.CronJobStatus) {
	m.set(view.KeyOf(cronJob), statusRecord{cronJob: cronJob.UID, status: status})
}

// RecordStored records a CronJob as the API returned it after storing its status.
func (m *Memory) RecordStored(cronJob *batchv1.CronJob) {
	m.set(view.KeyOf(cronJob), statusRecord{cronJob: cronJob.UID, status: cronJob.Status, stored: view.Revision(cronJob)})
}

func (m *Memory) set(key view.Key, last statusRecord) {
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

// NewView returns the view of a CronJob that controls these Jobs. It replaces the status that the
// informer shows if that is older than the recorded one.
func (m *Memory) NewView(shown *batchv1.CronJob, jobs []*batchv1.Job) View {
	v := NewView(shown, jobs)
	last, newer := m.newerStatus(shown)
	if !newer {
		return v
	}
	v.CronJob = shown.DeepCopy()
	v.CronJob.Status = last.status
	if last.stored > 0 {
		v.StoredStatus = last.status
	}
	return v
}

// newerStatus returns the recorded status if it is newer than what is shown. Otherwise it forgets
// the record: whatever is shown after that is meant, even an earlier time.
func (m *Memory) newerStatus(shown *batchv1.CronJob) (last statusRecord, newer bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := view.KeyOf(shown)
	if last = m.last[key]; last.newerThan(shown) {
		return last, true
	}
	delete(m.last, key)
	return statusRecord{}, false
}

// newerThan reports whether the record is newer than a CronJob as shown. If it is not known whether
// the API has the record, the schedule time decides.
func (s statusRecord) newerThan(shown *batchv1.CronJob) bool {
	switch {
	case s.cronJob != shown.UID:
		return false
	case s.stored > 0:
		return view.Revision(shown) < s.stored
	}
	shows := shown.Status.LastScheduleTime
	return shows == nil || shows.Before(s.status.LastScheduleTime)
}
