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

// Delivery takes one pod's status one step (KBL-63): look at the API's object, merge,
// update /status unless nothing differs, and delete the object if it may go. It is pure:
// Next is the request to be made, and Answered takes what became of it.
//
//	Ask ──▶ Store ──▶ Confirm        each may be the first, or be left out
//	 ▲        │ conflict
//	 └────────┘
type Delivery struct {
	book *Book
	uid  types.UID
	// entry is what is reported now, taken what was when the delivery began.
	entry *entry
	taken entry

	request Request
	err     error
	tries   int
}

// Request is what a delivery asks of the API.
type Request int

// The requests.
const (
	// None: the delivery is over; see Err.
	None Request = iota
	// Ask is a GET of the pod.
	Ask
	// Store is an update of its /status, with Wanted.
	Store
	// Confirm is the delete with grace 0 of its UID: round 3.
	Confirm
)

// tries is how often one step begins again after a conflict.
const tries = 5

func newDelivery(b *Book, uid types.UID, e *entry, copies Copies) *Delivery {
	d := &Delivery{book: b, uid: uid, entry: e, taken: *e, request: None}
	copied, known := copies.Get(uid)
	if known && copied == nil {
		return d // the watch showed it deleted: nobody is left to be told
	}
	if d.taken.answer = podset.Newer(copied, e.answer); d.taken.answer == nil {
		d.request = Ask
		return d
	}
	d.request = Store
	return d
}

// Pod is the pod as it was reported when the delivery began.
func (d *Delivery) Pod() *corev1.Pod { return d.taken.pod }

// Live is the API's object as far as it is known; nil before the answer to Ask.
func (d *Delivery) Live() *corev1.Pod { return d.taken.answer }

// Err is why a delivery that is over failed; nil when it did not.
func (d *Delivery) Err() error { return d.err }

// Next is the request to be made. A status that the API has already is accepted without
// one.
func (d *Delivery) Next(now time.Time) (Request, *corev1.Pod) {
	if d.request != Store {
		return d.request, d.taken.answer
	}
	live := d.taken.answer
	merged := Merge(live, d.taken.status, d.taken.facts, now)
	if kinds.Equal(live.Status, merged) {
		d.accept(live)
		return d.request, d.taken.answer
	}
	update := *live // the metadata and the spec are shared, and only read
	update.Status = merged
	return Store, &update
}

// Answered takes what became of the request: the API's object, or the error.
func (d *Delivery) Answered(pod *corev1.Pod, err error) {
	switch d.request {
	case Ask:
		d.found(pod, err)
	case Store:
		d.stored(pod, err)
	case Confirm:
		d.confirmed(err)
	case None:
	}
}

// found takes the answer to Ask. An object that is not there, or whose name belongs to
// another UID, must not get this status, and that is no error.
func (d *Delivery) found(live *corev1.Pod, err error) {
	d.request = None
	switch {
	case apierrors.IsNotFound(err): // ignored, as upstream does
	case err != nil:
		d.err = fmt.Errorf("get pod %s: %w", podstate.Key(d.taken.pod), err)
	case live.UID == d.uid, podstate.Mirror(live) && podstate.MirrorOf(live, d.taken.pod):
		d.taken.answer, d.request = live, Store
	case !podstate.Static(d.taken.pod):
		d.book.Forget(d.uid)
	}
}

// stored takes the answer to Store. After the last conflict the error is that conflict.
func (d *Delivery) stored(stored *corev1.Pod, err error) {
	d.tries++
	switch {
	case err == nil:
		d.accept(stored)
	case apierrors.IsNotFound(err): // nobody is left to be told
		d.request = None
	case apierrors.IsConflict(err) && d.tries < tries:
		d.request = Ask
	default:
		d.request, d.err = None, fmt.Errorf("update status of pod %s: %w", podstate.Key(d.taken.answer), err)
	}
}

// accept notes that the API has the status, and goes on to round 3 if the object may go.
func (d *Delivery) accept(live *corev1.Pod) {
	d.taken.answer = live
	d.entry.answer = live
	d.entry.accepted = max(d.entry.accepted, d.taken.version)
	d.request = None
	if Deletable(live, d.taken.finished, d.book.compat.PublishesTerminalPhase) {
		d.request = Confirm
	}
}
