package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/pleg"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// runtimeSide is the kubelet's way to its runtime, and what it has seen of it.
type runtimeSide struct {
	views *pleg.Views
	calls map[CallID]*runtimeCall
	// wanted says that there is a reason to list, listing that one is under way.
	wanted, listing bool
	// next is closed at the next good listing.
	next   chan struct{}
	timers uint64
	// boot is the runtime's that was last heard of.
	boot proto.Boot
	// last is the last listing, and still says that another now would show the same.
	last  Listing
	still bool
}

// runtimeCall is a call under way; then is told what becomes of it.
type runtimeCall struct {
	then func(now time.Time, answer RuntimeResponse, out Out)
}

// The time that a runtime has for a call, beside a stop's own timeout, and between two
// listings of a runtime of which there are no news.
const (
	runtimeTimeout = 2 * time.Minute
	listTimeout    = 2 * time.Second
	quietRelist    = 30 * time.Second
	firstRelist    = 50 * time.Millisecond
)

// ask calls the runtime.
func (k *kubeletProcess) ask(now time.Time, do any, timeout time.Duration, out Out, then func(time.Time, RuntimeResponse, Out)) (id CallID) {
	until := now.Add(timeout)
	id = out.Call(k.of.runtime, fmt.Sprintf("%T", do), RuntimeRequest{Boot: k.begun.boot, Until: until, Do: do}, timeout)
	answered := k.api.contacts.Calls(methodOf(do))
	k.runtime.calls[id] = &runtimeCall{func(now time.Time, answer RuntimeResponse, out Out) {
		if inside(do) && !now.Before(until) { // which is as long as it was to take
			answer = RuntimeResponse{Err: refuse(proto.CodeDeadlineExceeded, "context deadline exceeded")}
		}
		answered(answer.Err)
		then(now, answer, out)
	}}
	return id
}

// inside reports whether a call waits for a container, which may take as long as it likes:
// that it is not answered says nothing about the runtime.
func inside(do any) bool {
	switch do.(type) {
	case StartContainer, Exec, Reach:
		return true
	}
	return false
}

func (k *kubeletProcess) answered(in Answered) {
	answer, ok := in.Body.(RuntimeResponse)
	if in.Err != nil || !ok {
		answer = RuntimeResponse{Err: refuse(proto.CodeUnavailable, "the runtime does not answer")}
	}
	k.end(in.Call, answer)
}

// end ends a call, unless it has ended.
func (k *kubeletProcess) end(id CallID, answer RuntimeResponse) {
	if call := k.runtime.calls[id]; call != nil {
		delete(k.runtime.calls, id)
		call.then(k.begun.now, answer, k.out)
	}
}

// noticed takes up that something in the runtime has changed, or that there is a new one,
// with which the calls of the old are broken off.
func (k *kubeletProcess) noticed(news News) {
	k.runtime.wanted, k.runtime.still = true, false
	if old := k.runtime.boot; old == news.Boot || old == "" {
		k.runtime.boot = news.Boot
		return
	}
	k.runtime.boot = news.Boot
	for _, id := range slices.Sorted(maps.Keys(k.runtime.calls)) {
		k.answered(Answered{Call: id})
	}
}

// after has something done at a time.
func (k *kubeletProcess) after(at time.Time, out Out, do func(time.Time, Out)) (key string) {
	k.runtime.timers++
	key = "timer/" + strconv.FormatUint(k.runtime.timers, 10)
	k.timers.set(key, at, do, out)
	return key
}

// relist lists the node.
func (k *kubeletProcess) relist(now time.Time, out Out) {
	if k.runtime.listing {
		return
	}
	k.runtime.listing, k.runtime.wanted, k.runtime.still = true, false, true
	question := k.runtime.views.Ask(now)
	k.ask(now, List{}, listTimeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
		k.runtime.listing = false
		listing, ok := answer.Body.(Listing)
		if answer.Err != nil || !ok {
			k.runtime.views.Fail(now)
			k.runtime.still = false
			if _, listed := k.runtime.views.Last(""); listed {
				k.runtime.wanted = true
			} else {
				k.timers.set("relist", now.Add(firstRelist), k.relist, out)
			}
			return
		}
		k.runtime.last, k.runtime.boot = listing, cmp.Or(k.runtime.boot, listing.Boot)
		if k.runtime.views.List(question, listing.Sandboxes, listing.Containers) {
			k.untidied = true
		}
		k.timers.set("relist", k.boundary(now.Add(quietRelist), k.of.timing.Relist.Period), k.relist, out)
		close(k.runtime.next)
		k.runtime.next = make(chan struct{})
	})
}

// newer is what the runtime holds of a pod; fresh says whether that is as of later than a
// time.
func (k *kubeletProcess) newer(uid types.UID, than time.Time) (seen podstate.Pod, fresh bool) {
	now := k.begun.now
	if tick := k.boundary(now, k.of.timing.Relist.Period).Add(-k.of.timing.Relist.Period); k.runtime.still && !k.runtime.listing && tick.After(than) {
		// The product has listed again at the last tick, and seen the same.
		k.runtime.views.List(k.runtime.views.Ask(tick), k.runtime.last.Sandboxes, k.runtime.last.Containers)
	}
	return k.runtime.views.NewerThan(uid, than)
}

// collectLater removes what is dead from the runtime every minute (KBL-61).
func (k *kubeletProcess) collectLater(now time.Time, out Out) {
	k.timers.set("collect", k.boundary(now, k.of.timing.Loop.Collect), func(now time.Time, out Out) {
		k.collectLater(now, out)
		for _, seen := range k.runtime.views.All() {
			k.collect(now, seen, out)
		}
	}, out)
}

// collect removes what is dead of one pod.
func (k *kubeletProcess) collect(now time.Time, seen podstate.Pod, out Out) {
	gone := k.ready && k.pods[seen.UID] == nil && !k.worked(seen.UID) && seen.Idle()
	for _, c := range seen.Containers {
		old := c != seen.Latest(c.GetName()) && c != seen.Previous(c.GetName())
		if !podstate.Alive(c) && (gone || old) {
			k.ask(now, RemoveContainer{c.GetId()}, runtimeTimeout, out, ignore)
		}
	}
	for i, s := range seen.Sandboxes {
		used := slices.ContainsFunc(seen.Containers, func(c *proto.Container) bool { return c.GetSandboxId() == s.GetId() })
		if gone || i > 0 && !used {
			k.ask(now, RemoveSandbox{s.GetId()}, runtimeTimeout, out, ignore)
		}
	}
}

func ignore(time.Time, RuntimeResponse, Out) {}
