package sim

import (
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Follower keeps a Sink a copy of what the apiserver has, as podapi.Client.Follow does in
// the product: list, then watch; again after a gap, a silence or another boot; and list
// once more when the history has gone. Where it stands is podapi.Cursor's to say.
//
// A process hands every Input to Step, after its Client. The objects that a Sink is given
// are shared with other processes and must not be changed.
type Follower struct {
	// Key is the follower's own among those of its process.
	Key    string
	Client *Client
	// Target is a collection; Selector is a field selector and may be empty.
	Target   podapi.Target
	Selector string
	Sink     podapi.Sink
	// Every is how often the apiserver speaks; Heartbeat when zero.
	Every time.Duration

	at      podapi.Cursor
	subject string
	// stage counts the ways in: what belongs to an earlier one is dropped.
	stage uint64
	stream
	keys followerKeys
}

// followerKeys are those of a follower's alarms.
type followerKeys struct{ again, beat, renew string }

// stream is a follower's end of the live stream.
type stream struct {
	// live says that frames are delivered; before, they are kept in early.
	live  bool
	early []*proto.Frame
	heard time.Time
	pause time.Duration
}

// The rhythm of a follower, as podapi's.
const (
	silentBeats  = 3
	renewEvery   = 20 * time.Second
	longestPause = 10 * time.Second
)

// Start begins to follow.
func (f *Follower) Start(now time.Time, out Out) {
	f.begin(now, out)
	f.list(now, out)
}

// Resume begins to follow behind a revision, without a list.
func (f *Follower) Resume(now time.Time, behind uint64, out Out) {
	f.begin(now, out)
	f.at = podapi.Cursor{Revision: behind}
	f.watch(now, out)
}

func (f *Follower) begin(now time.Time, out Out) {
	if f.Every <= 0 {
		f.Every = Heartbeat
	}
	f.keys = followerKeys{again: f.Key + "/again", beat: f.Key + "/beat", renew: f.Key + "/renew"}
	opts := f.options()
	scope, err := proto.ScopeFor(f.Target.Kind.GroupResource().String(), f.Target.Namespace, &opts)
	if err != nil {
		panic("sim: follow " + f.Target.String() + ": " + err.Error()) // a mistake in the simulator
	}
	f.subject = proto.WatchSubject(f.Client.Identity.Class(), scope)
	out.Subscribe(f.subject)
	out.Wake(f.keys.renew, now.Add(renewEvery))
}

func (f *Follower) options() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: f.Selector}
}

// enter begins another way in: what was asked for before is of no interest any more.
func (f *Follower) enter(now time.Time, out Out) (mine func() bool) {
	f.stage++
	f.live, f.early, f.heard = false, nil, now
	stage := f.stage
	out.Wake(f.keys.beat, time.Time{})
	return func() bool { return f.stage == stage }
}

func (f *Follower) list(now time.Time, out Out) {
	mine := f.enter(now, out)
	opts := f.options()
	if f.at.Revision > 0 {
		opts.ResourceVersion = strconv.FormatUint(f.at.Revision, 10)
	}
	f.ask(now, out, Ask{Verb: proto.VerbList, Target: f.Target, Options: &opts}, func(now time.Time, got Got, out Out) {
		if !mine() {
			return
		}
		if got.Err != nil {
			f.failed(now, got.Err, out)
			return
		}
		items, revision, err := itemsOf(got, f.Client.Decoded)
		if err != nil {
			f.failed(now, err, out)
			return
		}
		f.at = podapi.Cursor{Revision: revision}
		f.Sink.Replace(items, strconv.FormatUint(revision, 10))
		f.watch(now, out)
	})
}

// itemsOf is a list.
func itemsOf(got Got, decoded *Decoded) (items []kinds.Object, revision uint64, err error) {
	for _, part := range got.Parts {
		revision = part.GetList().GetRevision()
		for _, item := range part.GetList().GetItems() {
			obj, err := decoded.object(item.GetObject(), item.GetRevision())
			if err != nil {
				return nil, 0, err
			}
			if obj, ok := obj.(kinds.Object); ok {
				items = append(items, obj)
			}
		}
	}
	return items, revision, nil
}

func (f *Follower) watch(now time.Time, out Out) {
	mine := f.enter(now, out)
	opts := f.options()
	opts.ResourceVersion, opts.AllowWatchBookmarks = strconv.FormatUint(f.at.Revision, 10), true
	f.ask(now, out, Ask{Verb: proto.VerbWatch, Target: f.Target, Options: &opts}, func(now time.Time, got Got, out Out) {
		if !mine() {
			return
		}
		if got.Err != nil {
			f.failed(now, got.Err, out)
			return
		}
		f.join(now, got, out)
	})
}

// join delivers what was missed, and goes live.
func (f *Follower) join(now time.Time, got Got, out Out) {
	var join *proto.Join
	for _, part := range got.Parts {
		for _, event := range part.GetEvents() {
			if err := f.pass(event); err != nil {
				f.failed(now, err, out)
				return
			}
			f.at.Advance(event.GetRevision())
		}
		if part.GetJoin() != nil {
			join = part.GetJoin()
		}
	}
	f.pause = 0
	if join == nil {
		f.watch(now, out)
		return
	}
	f.at.Join(join)
	early := f.early
	f.live, f.early, f.heard = true, nil, now
	out.Wake(f.keys.beat, now.Add(silentBeats*f.Every))
	for _, frame := range early {
		if !f.live {
			return // one of them has sent the follower back
		}
		f.receive(now, frame, out)
	}
}

func (f *Follower) ask(now time.Time, out Out, ask Ask, then Then) {
	if err := f.Client.Do(now, out, ask, then); err != nil {
		panic("sim: follow " + f.Target.String() + ": " + err.Error()) // a mistake in the simulator
	}
}

// failed waits, and lists again.
func (f *Follower) failed(now time.Time, err error, out Out) {
	f.enter(now, out)
	if lost(err) {
		f.at = podapi.Cursor{}
	}
	f.pause = min(max(2*f.pause, time.Second), longestPause)
	out.Wake(f.keys.again, now.Add(f.pause))
}

// lost reports whether err says that a revision cannot be had.
func lost(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// Step takes what is the follower's, and reports whether it was.
func (f *Follower) Step(now time.Time, in Input, out Out) bool {
	switch in := in.(type) {
	case Message:
		frame, ok := in.Body.(Frame)
		if !ok || frame.Subject != f.subject {
			return false
		}
		if !f.live {
			f.early = append(f.early, frame.Frame)
			return true
		}
		f.receive(now, frame.Frame, out)
		return true
	case Alarm:
		return f.alarm(now, in.Key, out)
	case Boot, Called, Answered:
	}
	return false
}

// alarm does what is due, and reports whether it was the follower's.
func (f *Follower) alarm(now time.Time, key string, out Out) bool {
	switch key {
	case f.keys.again:
		f.list(now, out)
	case f.keys.beat:
		if silence := f.heard.Add(silentBeats * f.Every); now.Before(silence) {
			out.Wake(f.keys.beat, silence)
		} else if f.live {
			f.watch(now, out)
		}
	case f.keys.renew:
		opts, target := f.options(), f.Target
		target.Subresource = proto.SubresourceRenew
		f.ask(now, out, Ask{Verb: proto.VerbWatch, Target: target, Options: &opts}, nil)
		out.Wake(f.keys.renew, now.Add(renewEvery))
	default:
		return false
	}
	return true
}

// receive delivers a frame, if it is the next; otherwise it resumes.
func (f *Follower) receive(now time.Time, frame *proto.Frame, out Out) {
	f.heard = now
	news, err := f.at.Accept(frame)
	if err != nil {
		f.watch(now, out)
		return
	}
	if !news {
		return
	}
	for _, event := range frame.GetEvents() {
		if event.GetRevision() <= f.at.Revision {
			continue
		}
		if err := f.pass(event); err != nil {
			f.failed(now, err, out)
			return
		}
		f.at.Advance(event.GetRevision())
	}
	f.at.Advance(frame.GetRevision())
}

// pass hands one event to the sink; an ERROR is its error.
func (f *Follower) pass(event *proto.Event) error {
	typ := watch.EventType("")
	switch event.GetType() {
	case proto.EventType_EVENT_TYPE_ADDED:
		typ = watch.Added
	case proto.EventType_EVENT_TYPE_MODIFIED:
		typ = watch.Modified
	case proto.EventType_EVENT_TYPE_DELETED:
		typ = watch.Deleted
	case proto.EventType_EVENT_TYPE_BOOKMARK, proto.EventType_EVENT_TYPE_UNSPECIFIED:
		return nil
	case proto.EventType_EVENT_TYPE_ERROR:
		decoded, err := decode(event.GetObject(), 0)
		if err != nil {
			return err
		}
		return apierrors.FromObject(decoded)
	}
	obj, err := f.Client.Decoded.object(event.GetObject(), event.GetRevision())
	if err != nil {
		return err
	}
	f.Sink.Apply(watch.Event{Type: typ, Object: obj})
	return nil
}
