package status

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Queue holds the statuses to report: the latest of each UID, the version that the API has
// accepted, and the order of deliveries. It is pure: the caller sends, and passes the time. A
// Reporter adds a lock.
type Queue struct {
	compat  proto.Compat
	hostIP  string
	entries map[types.UID]*entry
	order   []types.UID
}

// entry is the reported status of one pod.
type entry struct {
	pod      *corev1.Pod
	status   corev1.PodStatus
	facts    Facts
	finished bool
	// prior is reported before the status; nil for none.
	prior *priorStatus
	// version counts changes; accepted is the version that the API has.
	version, accepted uint64
	// live is the object of the API's last answer.
	live         *corev1.Pod
	queued, busy bool
}

// priorStatus is a status that was waiting to be sent when the sandbox of its pod became ready.
type priorStatus struct {
	status  corev1.PodStatus
	facts   Facts
	version uint64
}

// NewQueue returns an empty queue.
func NewQueue(compat proto.Compat, hostIP string) *Queue {
	return &Queue{compat: compat, hostIP: hostIP, entries: map[types.UID]*entry{}}
}

// Report derives the pod's status, and queues it if it differs from the last one.
func (q *Queue) Report(pod *corev1.Pod, seen podstate.Pod, facts Facts, now time.Time) corev1.PodStatus {
	status := q.Derive(pod, seen, facts, now)
	q.update(q.getOrCreate(pod), pod, status, facts)
	return status
}

// Derive returns the pod's status as Report would queue it.
func (q *Queue) Derive(pod *corev1.Pod, seen podstate.Pod, facts Facts, now time.Time) corev1.PodStatus {
	return Derive(Input{
		Pod: pod, Seen: seen, Old: q.getOrCreate(pod).status, Facts: facts,
		HostIP: q.hostIP, Compat: q.compat, Now: now,
	})
}

// SandboxReady reports that the pod's sandbox is ready, before any container starts (upstream's
// OnPodSandboxReady). Nothing else of the status changes. A status that waits to be sent goes
// first, because creating a sandbox may take no time here.
func (q *Queue) SandboxReady(pod *corev1.Pod, now time.Time) {
	e := q.getOrCreate(pod)
	status := *e.status.DeepCopy()
	ready := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if q.compat.TracksGeneration {
		ready.ObservedGeneration, status.ObservedGeneration = pod.Generation, pod.Generation
	}
	old := podcondition.FindIn(status.Conditions, ready.Type)
	if podcondition.SetTransitionTime(&ready, old, now); old != nil {
		*old = ready
	} else {
		status.Conditions = append(status.Conditions, ready)
	}
	var before *priorStatus
	if e.queued && e.version > 0 {
		before = &priorStatus{e.status, e.facts, e.version}
	}
	q.update(e, pod, status, Facts{MayRun: true})
	e.prior = before
}

// Reject reports that the node rejects the pod (KBL-09).
func (q *Queue) Reject(pod *corev1.Pod, reason, message string, now time.Time) {
	status := *pod.Status.DeepCopy()
	status.Phase, status.Reason, status.Message = corev1.PodFailed, reason, message
	if q.compat.TracksGeneration {
		status.ObservedGeneration = pod.Generation
	}
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	q.update(q.getOrCreate(pod), pod, status, Facts{Ended: true})
}

// Finish reports that nothing of the pod is left on the node (KBL-62). If the pod is being deleted,
// its object is then deleted.
func (q *Queue) Finish(pod *corev1.Pod) {
	e := q.getOrCreate(pod)
	e.finished = true
	e.version++
	q.update(e, pod, Terminate(pod, e.status, q.compat), Facts{Ended: true})
	q.enqueue(pod.UID, e)
}

// Refresh queues a pod whose status changed in the API, by others or by an answer to this kubelet,
// to restore the kubelet's fields. It counts as a change, so that it is retried while the API is
// unreachable.
func (q *Queue) Refresh(pod *corev1.Pod) {
	e := q.entries[pod.UID]
	if e == nil || (e.live != nil && e.live.ResourceVersion == pod.ResourceVersion) {
		return
	}
	e.version++
	q.enqueue(pod.UID, e)
}

// Forget drops the entry of a UID that has left the API.
func (q *Queue) Forget(uid types.UID) { delete(q.entries, uid) }

// Known returns the UIDs with a status, sorted.
func (q *Queue) Known() []types.UID { return slices.Sorted(maps.Keys(q.entries)) }

// Requeue queues everything that the API has not accepted, and finished pods that were marked
// since. It reports whether anything is queued.
func (q *Queue) Requeue(copies Copies) bool {
	for _, uid := range q.Known() {
		e := q.entries[uid]
		if e.version != e.accepted || q.canDelete(uid, e, copies) {
			q.enqueue(uid, e)
		}
	}
	return len(q.order) > 0
}

// Status returns the last reported status of a pod; false for none.
func (q *Queue) Status(uid types.UID) (corev1.PodStatus, bool) {
	e := q.entries[uid]
	if e == nil || e.version == 0 {
		return corev1.PodStatus{}, false
	}
	return e.status, true
}

// canDelete reports whether a finished pod has been marked and its object may be deleted.
func (q *Queue) canDelete(uid types.UID, e *entry, copies Copies) bool {
	if !e.finished {
		return false
	}
	copied, _ := copies.Get(uid)
	live := podset.Newer(copied, e.live)
	return live != nil && Deletable(live, e.finished, q.compat.PublishesTerminalPhase)
}

// HasNext reports whether Next may return a delivery.
func (q *Queue) HasNext() bool { return len(q.order) > 0 }

// Next returns the next delivery, or nil. Later reports of the pod wait until Done.
func (q *Queue) Next(copies Copies) *Delivery {
	for len(q.order) > 0 {
		uid := q.order[0]
		q.order = q.order[1:]
		if e := q.entries[uid]; e != nil && e.queued {
			e.queued, e.busy = e.prior != nil, true
			d := newDelivery(q, uid, e, copies)
			if before := e.prior; before != nil {
				d.snapshot.status, d.snapshot.facts, d.snapshot.version = before.status, before.facts, before.version
				e.prior = nil
			}
			return d
		}
	}
	return nil
}

// Done ends a delivery. A delivery that failed is retried when it is requeued.
func (q *Queue) Done(d *Delivery) {
	d.entry.busy = false
	if d.entry.queued && q.entries[d.uid] == d.entry {
		q.order = append(q.order, d.uid)
	}
}

func (q *Queue) getOrCreate(pod *corev1.Pod) *entry {
	e := q.entries[pod.UID]
	if e == nil {
		e = &entry{pod: pod, status: pod.Status}
		q.entries[pod.UID] = e
	}
	return e
}

func (q *Queue) update(e *entry, pod *corev1.Pod, status corev1.PodStatus, facts Facts) {
	e.pod = pod
	if e.version > 0 && e.facts.MayRun == facts.MayRun && kinds.Equal(e.status, status) {
		return
	}
	e.status, e.facts, e.prior = status, facts, nil
	e.version++
	q.enqueue(pod.UID, e)
}

func (q *Queue) enqueue(uid types.UID, e *entry) {
	if e.queued {
		return
	}
	e.queued = true
	if !e.busy { // else Done puts it back
		q.order = append(q.order, uid)
	}
}
