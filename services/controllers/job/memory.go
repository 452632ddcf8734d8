package job

import (
	"errors"
	"strconv"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/view"
)

// Memory is what is known of Jobs and in no object: the failures of their pods, the pods
// that were let go of and are still in the view with their finalizer, and what was written last.
type Memory struct {
	mu    sync.Mutex
	known map[view.Key]*recollection
}

type recollection struct {
	job      types.UID
	failures Failures
	freed    map[types.UID]bool
	// stored is the revision of the Job as its status was stored last, and let are the pods as
	// they were let go of.
	stored int64
	let    map[types.UID]*corev1.Pod
}

// NewMemory is an empty one.
func NewMemory() *Memory { return &Memory{known: map[view.Key]*recollection{}} }

func (m *Memory) at(key view.Key, job types.UID) *recollection {
	if m.known[key] == nil || m.known[key].job != job {
		m.known[key] = &recollection{job: job, freed: map[types.UID]bool{}, let: map[types.UID]*corev1.Pod{}}
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

// Stored notes a Job as the API has answered that its status is stored.
func (m *Memory) Stored(job *batchv1.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(view.KeyOf(job), job.UID).stored = revision(job)
}

// Let notes a pod as the API has answered that it is let go of.
func (m *Memory) Let(key view.Key, job types.UID, pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key, job).let[pod.UID] = pod
}

var errOldView = errors.New("the view is older than what was written for the Job")

// Ready is an error while the view, of which job is the Job and in which shown finds pods, is
// older than what was written for the Job: a pod that it shows as nobody's may have been counted
// (ConsistencyStore.EnsureReady).
func (m *Memory) Ready(job *batchv1.Job, shown func(view.Key) (*corev1.Pod, bool)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.at(view.KeyOf(job), job.UID)
	for uid, pod := range known.let {
		if now, there := shown(view.KeyOf(pod)); there && now.UID == uid && revision(now) < revision(pod) {
			return errOldView
		}
		delete(known.let, uid)
	}
	if revision(job) < known.stored {
		return errOldView
	}
	return nil
}

func revision(of metav1.Object) int64 {
	n, _ := strconv.ParseInt(of.GetResourceVersion(), 10, 64)
	return n
}

// Forget drops all that is known of a Job that is gone.
func (m *Memory) Forget(key view.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}
