package sim

import (
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
)

// Watcher is the name of the process that watches from wherever a watch can begin.
const Watcher = "watcher"

// watcher follows all pods for a while, and then again: from a revision that was long ago,
// from the oldest that is still known, or from one that is still to come. It notes what it
// is handed, so that nothing may be missing and nothing be there twice.
type watcher struct {
	seed     uint64
	client   Client
	follower *Follower
	number   uint64
	// reached are revisions that it has come to, in order.
	reached []uint64
	handed
}

// handed is what one watch was handed and has not noted yet.
type handed struct {
	watch uint64 // its number: one that lists begins another
	from  uint64
	sum   history.Sum
}

// NewWatcher is an incarnation of the watcher.
func NewWatcher(seed uint64) Process { return &watcher{seed: seed} }

// The rhythm of the watcher.
const (
	watchFor   = 30 * time.Second
	wakeNext   = "next"
	mostFuture = 8
)

func (w *watcher) Step(now time.Time, in Input, out Out) {
	switch in := in.(type) {
	case Boot:
		w.client = newClient(proto.Admin, in)
		out.Wake(wakeNext, now.Add(watchFor/2))
	case Alarm:
		if in.Key == wakeNext {
			w.begin(now, out)
			out.Wake(wakeNext, now.Add(watchFor))
			return
		}
	case Message, Called, Answered:
	}
	if !w.client.Step(now, in, out) && w.follower != nil {
		w.follower.Step(now, in, out)
	}
	w.tell(out)
}

// begin ends what it follows, and follows from elsewhere.
func (w *watcher) begin(now time.Time, out Out) {
	if w.follower != nil {
		w.follower.enter(now, out) // what it has asked for is of no interest
		w.reached = append(w.reached, w.follower.at.Revision)
	}
	w.follower = nil
	w.number++
	dice := diceOf(w.seed, "watch", int(w.number))
	switch roll := dice.below(4); {
	case len(w.reached) == 0 || roll == 0:
		w.follow(now, 0, out)
	case roll == 1:
		w.follow(now, w.reached[dice.below(len(w.reached))], out)
	case roll == 2:
		w.follow(now, w.reached[len(w.reached)-1]+1+uint64(dice.below(mostFuture)), out)
	default:
		w.oldest(now, out)
	}
}

// oldest follows from the oldest revision that there is: the answer to a watch from before
// all says which.
func (w *watcher) oldest(now time.Time, out Out) {
	number := w.number
	ask := Ask{Verb: proto.VerbWatch, Target: w.target(), Options: &metav1.ListOptions{ResourceVersion: "1"}}
	err := w.client.Do(now, out, ask, func(now time.Time, got Got, out Out) {
		if number == w.number && got.Err == nil {
			w.follow(now, oldestOf(got), out)
		}
	})
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
}

// oldestOf is the oldest revision that can be watched from.
func oldestOf(got Got) uint64 {
	for _, part := range got.Parts {
		for _, event := range part.GetEvents() {
			if event.GetType() != proto.EventType_EVENT_TYPE_ERROR {
				continue
			}
			if status, err := decode(event.GetObject(), 0); err == nil {
				var asked, oldest uint64
				if _, err := fmt.Sscanf(apierrors.FromObject(status).Error(), "too old resource version: %d (%d)", &asked, &oldest); err == nil {
					return oldest
				}
			}
		}
	}
	return 1
}

func (*watcher) target() podapi.Target { return podapi.Target{Kind: kindOfResource("pods")} }

// follow follows from behind a revision; 0 begins with a list.
func (w *watcher) follow(now time.Time, behind uint64, out Out) {
	w.handed = handed{watch: w.watch + 1, from: behind}
	w.follower = &Follower{Key: "watch " + strconv.FormatUint(w.number, 10), Client: &w.client, Target: w.target(), Sink: w}
	if behind == 0 {
		w.follower.Start(now, out)
	} else {
		w.follower.Resume(now, behind, out)
	}
}

// Replace implements podapi.Sink: what it is handed from now on begins there.
func (w *watcher) Replace(_ []kinds.Object, revision string) {
	from, _ := strconv.ParseUint(revision, 10, 64)
	w.handed = handed{watch: w.watch + 1, from: from}
}

// Apply implements podapi.Sink.
func (w *watcher) Apply(event watch.Event) {
	if obj, ok := event.Object.(kinds.Object); ok {
		w.sum.Add(string(event.Type), view.Revision(obj))
	}
}

// tell notes what it was handed since it last did.
func (w *watcher) tell(out Out) {
	if w.follower == nil || w.sum.Count == 0 {
		return
	}
	to := max(w.follower.at.Revision, w.from)
	out.Note("", history.WatchDelivery{
		Watch: w.watch, Resource: "pods", From: int64(w.from), To: int64(to), Items: w.sum.Count, Digest: w.sum.String(),
	})
	w.handed = handed{watch: w.watch, from: to}
}
