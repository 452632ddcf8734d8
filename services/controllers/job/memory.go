package job

import (
	"errors"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/view"
)

// Memory is what is known of Jobs and in no object: the failures of their pods, and what was
// written for them that the view may not show yet.
type Memory struct {
	mu    sync.Mutex
	known map[view.Key]*recollection
}

type recollection struct {
	job      types.UID
	failures Failures
	// stored is the revision of the Job as its status was stored last, and freed are the pods that
	// were let go of, until the view shows that.
	stored int64
	freed  map[types.UID]freed
}

// freed is a pod that was let go of.
type freed struct {
	key view.Key
	// revision is the pod's since then; 0 of one of which the API has answered that it is gone.
	revision int64
}

// NewMemory is an empty one.
func NewMemory() *Memory { return &Memory{known: map[view.Key]*recollection{}} }

func (m *Memory) at(key view.Key, job types.UID) *recollection {
	if m.known[key] == nil || m.known[key].job != job {
		m.known[key] = &recollection{job: job, freed: map[types.UID]freed{}}
	}
	return m.known[key]
}

// Of is what is known of a Job, which may be another than the one that had its name before: its
// failures, and the pods that were let go of, though the view may show the finalizer.
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

// Free notes that a pod is let go of, and its revision since then; 0 when the API has answered that
// it is gone.
func (m *Memory) Free(job *batchv1.Job, pod *corev1.Pod, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(view.KeyOf(job), job.UID).freed[pod.UID] = freed{view.KeyOf(pod), revision}
}

// Stored notes a Job as the API has answered that its status is stored.
func (m *Memory) Stored(job *batchv1.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(view.KeyOf(job), job.UID).stored = view.Revision(job)
}

var errOldView = errors.New("the view is older than what was written for the Job")

// Ready is an error while the view, of which job is the Job and in which shown finds pods, is
// older than what was written for the Job: a pod that it shows as nobody's may have been counted
// (ConsistencyStore.EnsureReady).
func (m *Memory) Ready(job *batchv1.Job, shown func(view.Key) (*corev1.Pod, bool)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.at(view.KeyOf(job), job.UID)
	for uid, pod := range known.freed {
		switch now, there := shown(pod.key); {
		case !there, now.UID != uid, pod.shownBy(now):
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

// shownBy reports whether the view, which shows the pod as it is now, shows that it was let go of.
// What had been deleted is gone with its last finalizer, and was answered in the version before.
func (f freed) shownBy(now *corev1.Pod) bool {
	at := view.Revision(now)
	return !Tracked(now) && at >= f.revision || f.revision > 0 && at > f.revision
}

// Forget drops all that is known of a Job that is gone, or over: nothing of it will be counted.
func (m *Memory) Forget(key view.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}
