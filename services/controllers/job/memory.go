package job

import (
	"errors"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/view"
)

// Memory is what the controller remembers of Jobs and no object holds: the failures of their pods,
// and the writes that the view may not show yet.
type Memory struct {
	mu    sync.Mutex
	known map[view.Key]*jobMemory
}

type jobMemory struct {
	job      types.UID
	failures Failures
	// stored is the revision of the Job after its last status write. freed are the pods whose
	// finalizer was removed, until the view shows that.
	stored int64
	freed  map[types.UID]freedPod
}

// freedPod is a pod whose finalizer was removed.
type freedPod struct {
	key view.Key
	// revision is the pod's last written resourceVersion, or 0 if it was deleted.
	revision int64
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{known: map[view.Key]*jobMemory{}} }

func (m *Memory) entry(key view.Key, job types.UID) *jobMemory {
	if m.known[key] == nil || m.known[key].job != job {
		m.known[key] = &jobMemory{job: job, freed: map[types.UID]freedPod{}}
	}
	return m.known[key]
}

// Get returns the failures of a Job, and the pods whose finalizer was removed, though the view may
// still show it. A Job with another UID than the last of its name starts anew.
func (m *Memory) Get(key view.Key, job types.UID) (Failures, map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.entry(key, job)
	freed := make(map[types.UID]bool, len(known.freed))
	for uid := range known.freed {
		freed[uid] = true
	}
	return known.failures, freed
}

// SetFailures stores the counted failures.
func (m *Memory) SetFailures(key view.Key, job types.UID, failures Failures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(key, job).failures = failures
}

// PodFreed stores that a pod's finalizer was removed, and the pod's revision after that; 0 if the
// API has answered that the pod is gone.
func (m *Memory) PodFreed(job *batchv1.Job, pod *corev1.Pod, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(view.KeyOf(job), job.UID).freed[pod.UID] = freedPod{view.KeyOf(pod), revision}
}

// StatusStored stores the revision of a Job after a status write.
func (m *Memory) StatusStored(job *batchv1.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(view.KeyOf(job), job.UID).stored = view.Revision(job)
}

var errOldView = errors.New("the view is older than what was written for the Job")

// CheckView returns an error while the view is older than what was written for the Job: the view
// may show a pod as uncounted that was counted already (ConsistencyStore.EnsureReady). job is the
// Job in the view, and shown finds pods in the view.
func (m *Memory) CheckView(job *batchv1.Job, shown func(view.Key) (*corev1.Pod, bool)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.entry(view.KeyOf(job), job.UID)
	for uid, pod := range known.freed {
		switch now, there := shown(pod.key); {
		case !there, now.UID != uid, pod.isShownBy(now):
			delete(known.freed, uid)
		case pod.revision > 0:
			return errOldView
		}
	}
	if view.Revision(job) < known.stored {
		return errOldView
	}
	return nil
}

// isShownBy reports whether the view, which shows the pod as now, shows that the finalizer was
// removed. A deleted pod is removed with its last finalizer, and the answer was the version before.
func (f freedPod) isShownBy(now *corev1.Pod) bool {
	at := view.Revision(now)
	return !IsTracked(now) && at >= f.revision || f.revision > 0 && at > f.revision
}

// Forget drops the memory of a Job that is gone or finished: none of its pods will be counted.
func (m *Memory) Forget(key view.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}
