package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Delivery takes one pod's status one step (KBL-63): get the API's object, merge, update /status
// unless nothing differs, and delete the object if that is allowed. It is pure: Next returns the
// request to make, and HandleAnswer takes its result.
//
//	Fetch ──▶ Store ──▶ Confirm        each may be the first, or be left out
//	 ▲          │ conflict
//	 └──────────┘
type Delivery struct {
	queue *Queue
	uid   types.UID
	// entry is the live entry of the queue; snapshot is its copy from when the delivery began.
	entry    *entry
	snapshot entry

	request  Request
	err      error
	attempts int
}

// Request is a request that a delivery makes of the API.
type Request int

// The requests.
const (
	// None says that the delivery is over; see Err.
	None Request = iota
	// Fetch is a GET of the pod.
	Fetch
	// UpdateStatus is an update of the pod's /status.
	UpdateStatus
	// Confirm is the delete with grace 0 of the pod's UID: round 3.
	Confirm
)

// maxAttempts is how often one step is tried when conflicts occur.
const maxAttempts = 5

func newDelivery(b *Queue, uid types.UID, e *entry, copies Copies) *Delivery {
	d := &Delivery{queue: b, uid: uid, entry: e, snapshot: *e, request: None}
	copied, known := copies.Get(uid)
	if known && copied == nil {
		return d // the watch showed it deleted: there is nothing left to update
	}
	if d.snapshot.live = podset.Newer(copied, e.live); d.snapshot.live == nil {
		d.request = Fetch
		return d
	}
	d.request = UpdateStatus
	return d
}

// Pod returns the pod as it was reported when the delivery began.
func (d *Delivery) Pod() *corev1.Pod { return d.snapshot.pod }

// Live returns the API's object as far as it is known; nil before the answer to Fetch.
func (d *Delivery) Live() *corev1.Pod { return d.snapshot.live }

// Err returns why a delivery that is over failed, or nil.
func (d *Delivery) Err() error { return d.err }

// Next returns the request to make. A status that the API has already is accepted without one.
func (d *Delivery) Next(now time.Time) (Request, *corev1.Pod) {
	if d.request != UpdateStatus {
		return d.request, d.snapshot.live
	}
	live := d.snapshot.live
	merged := Merge(live, d.snapshot.status, d.snapshot.facts, now)
	if kinds.Equal(live.Status, merged) {
		d.accept(live)
		return d.request, d.snapshot.live
	}
	update := *live // the metadata and the spec are shared, and only read
	update.Status = merged
	return UpdateStatus, &update
}

// HandleAnswer takes the result of the request: the API's object, or the error.
func (d *Delivery) HandleAnswer(pod *corev1.Pod, err error) {
	switch d.request {
	case Fetch:
		d.handleFetched(pod, err)
	case UpdateStatus:
		d.handleStored(pod, err)
	case Confirm:
		d.handleConfirmed(err)
	case None:
	}
}

// handleFetched takes the answer to Fetch. If the object does not exist, or its name belongs to
// another UID, the status is not sent; that is no error.
func (d *Delivery) handleFetched(live *corev1.Pod, err error) {
	d.request = None
	switch {
	case apierrors.IsNotFound(err): // ignored, as upstream does
	case err != nil:
		d.err = fmt.Errorf("get pod %s: %w", podstate.Key(d.snapshot.pod), err)
	case live.UID == d.uid, podstate.IsMirror(live) && podstate.IsMirrorOf(live, d.snapshot.pod):
		d.snapshot.live, d.request = live, UpdateStatus
	case !podstate.IsStatic(d.snapshot.pod):
		d.queue.Forget(d.uid)
	}
}

// handleStored takes the answer to Store. After the last conflict the error is that conflict.
func (d *Delivery) handleStored(stored *corev1.Pod, err error) {
	d.attempts++
	switch {
	case err == nil:
		d.accept(stored)
	case apierrors.IsNotFound(err): // there is nothing left to update
		d.request = None
	case apierrors.IsConflict(err) && d.attempts < maxAttempts:
		d.request = Fetch
	default:
		d.request, d.err = None, fmt.Errorf("update status of pod %s: %w", podstate.Key(d.snapshot.live), err)
	}
}

// accept records that the API has the status, and begins round 3 if the object may be deleted.
func (d *Delivery) accept(live *corev1.Pod) {
	d.snapshot.live = live
	d.entry.live = live
	d.entry.accepted = max(d.entry.accepted, d.snapshot.version)
	d.request = None
	if Deletable(live, d.snapshot.finished, d.queue.compat.PublishesTerminalPhase) {
		d.request = Confirm
	}
}
