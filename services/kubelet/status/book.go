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

// Book is what there is to report: the latest status of each UID, what of it the API has
// accepted, and whose turn it is. It is pure: who has it sends, and says when. A Reporter
// is one with a lock.
type Book struct {
	compat  proto.Compat
	hostIP  string
	entries map[types.UID]*entry
	queue   []types.UID
}

type entry struct {
	pod      *corev1.Pod
	status   corev1.PodStatus
	facts    Facts
	finished bool
	// before is reported ahead of the status; nil for none.
	before *earlier
	// version counts changes; accepted is the version that the API has.
	version, accepted uint64
	// answer is the API's object as it last answered.
	answer       *corev1.Pod
	queued, busy bool
}

// earlier is a status that waits to be sent when the sandbox of its pod gets ready.
type earlier struct {
	status  corev1.PodStatus
	facts   Facts
	version uint64
}

// NewBook has nothing to report.
func NewBook(compat proto.Compat, hostIP string) *Book {
	return &Book{compat: compat, hostIP: hostIP, entries: map[types.UID]*entry{}}
}

// Report derives the pod's status and queues it if it differs from the last.
func (b *Book) Report(pod *corev1.Pod, seen podstate.Pod, facts Facts, now time.Time) corev1.PodStatus {
	status := b.Derive(pod, seen, facts, now)
	b.set(b.entry(pod), pod, status, facts)
	return status
}

// Derive is the pod's status as Report would queue it.
func (b *Book) Derive(pod *corev1.Pod, seen podstate.Pod, facts Facts, now time.Time) corev1.PodStatus {
	return Derive(Input{
		Pod: pod, Seen: seen, Old: b.entry(pod).status, Facts: facts,
		HostIP: b.hostIP, Compat: b.compat, Now: now,
	})
}

// SandboxReady reports that the sandbox of the pod is there, before any of its containers
// starts (upstream's OnPodSandboxReady). Nothing else of the status changes. A status that waits to
// be sent goes ahead of it: making a sandbox may take no time here.
func (b *Book) SandboxReady(pod *corev1.Pod, now time.Time) {
	e := b.entry(pod)
	status := *e.status.DeepCopy()
	ready := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if b.compat.TracksGeneration {
		ready.ObservedGeneration, status.ObservedGeneration = pod.Generation, pod.Generation
	}
	old := podcondition.FindIn(status.Conditions, ready.Type)
	if podcondition.SetTransitionTime(&ready, old, now); old != nil {
		*old = ready
	} else {
		status.Conditions = append(status.Conditions, ready)
	}
	var before *earlier
	if e.queued && e.version > 0 {
		before = &earlier{e.status, e.facts, e.version}
	}
	b.set(e, pod, status, Facts{MayRun: true})
	e.before = before
}

// Reject reports that the node does not take the pod (KBL-09).
func (b *Book) Reject(pod *corev1.Pod, reason, message string, now time.Time) {
	status := *pod.Status.DeepCopy()
	status.Phase, status.Reason, status.Message = corev1.PodFailed, reason, message
	if b.compat.TracksGeneration {
		status.ObservedGeneration = pod.Generation
	}
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	b.set(b.entry(pod), pod, status, Facts{Ended: true})
}

// Finish reports that nothing of the pod is left on the node (KBL-62). If the pod is
// being deleted, the object goes.
func (b *Book) Finish(pod *corev1.Pod) {
	e := b.entry(pod)
	e.finished = true
	e.version++
	b.set(e, pod, Terminate(pod, e.status, b.compat), Facts{Ended: true})
	b.enqueue(pod.UID, e)
}

// Refresh looks at a pod whose status the API shows changed, by others or by an answer
// to this kubelet, and puts right what is the kubelet's. It counts as a change, so that it
// is tried again when the API is not to be reached.
func (b *Book) Refresh(pod *corev1.Pod) {
	e := b.entries[pod.UID]
	if e == nil || (e.answer != nil && e.answer.ResourceVersion == pod.ResourceVersion) {
		return
	}
	e.version++
	b.enqueue(pod.UID, e)
}

// Forget drops what is queued for a UID that has left the API.
func (b *Book) Forget(uid types.UID) { delete(b.entries, uid) }

// Known are the UIDs with a status, in order.
func (b *Book) Known() []types.UID { return slices.Sorted(maps.Keys(b.entries)) }

// Requeue queues everything that the API has not accepted, and finished pods that were
// marked since. It reports whether anything waits to be sent.
func (b *Book) Requeue(copies Copies) bool {
	for _, uid := range b.Known() {
		e := b.entries[uid]
		if e.version != e.accepted || b.due(uid, e, copies) {
			b.enqueue(uid, e)
		}
	}
	return len(b.queue) > 0
}

// Status is what was reported last of a pod; false for nothing.
func (b *Book) Status(uid types.UID) (corev1.PodStatus, bool) {
	e := b.entries[uid]
	if e == nil || e.version == 0 {
		return corev1.PodStatus{}, false
	}
	return e.status, true
}

// due reports whether a pod may go that is finished, and has been marked since.
func (b *Book) due(uid types.UID, e *entry, copies Copies) bool {
	if !e.finished {
		return false
	}
	copied, _ := copies.Get(uid)
	live := podset.Newer(copied, e.answer)
	return live != nil && Deletable(live, e.finished, b.compat.PublishesTerminalPhase)
}

// Waiting reports whether Next has something.
func (b *Book) Waiting() bool { return len(b.queue) > 0 }

// Next is the delivery whose turn it is; nil for none. What is reported of the pod
// meanwhile waits until it is Done.
func (b *Book) Next(copies Copies) *Delivery {
	for len(b.queue) > 0 {
		uid := b.queue[0]
		b.queue = b.queue[1:]
		if e := b.entries[uid]; e != nil && e.queued {
			e.queued, e.busy = e.before != nil, true
			d := newDelivery(b, uid, e, copies)
			if before := e.before; before != nil {
				d.taken.status, d.taken.facts, d.taken.version = before.status, before.facts, before.version
				e.before = nil
			}
			return d
		}
	}
	return nil
}

// Done ends a delivery. One that was not carried to its end is tried again when it is
// requeued.
func (b *Book) Done(d *Delivery) {
	d.entry.busy = false
	if d.entry.queued && b.entries[d.uid] == d.entry {
		b.queue = append(b.queue, d.uid)
	}
}

func (b *Book) entry(pod *corev1.Pod) *entry {
	e := b.entries[pod.UID]
	if e == nil {
		e = &entry{pod: pod, status: pod.Status}
		b.entries[pod.UID] = e
	}
	return e
}

func (b *Book) set(e *entry, pod *corev1.Pod, status corev1.PodStatus, facts Facts) {
	e.pod = pod
	if e.version > 0 && e.facts.MayRun == facts.MayRun && kinds.Equal(e.status, status) {
		return
	}
	e.status, e.facts, e.before = status, facts, nil
	e.version++
	b.enqueue(pod.UID, e)
}

func (b *Book) enqueue(uid types.UID, e *entry) {
	if e.queued {
		return
	}
	e.queued = true
	if !e.busy { // else Done puts it back
		b.queue = append(b.queue, uid)
	}
}
