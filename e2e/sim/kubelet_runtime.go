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
	idleRelist     = 30 * time.Second
	firstRelist    = 50 * time.Millisecond
)

// callRuntime calls the runtime.
func (k *kubeletProcess) callRuntime(now time.Time, do any, timeout time.Duration, out Out, then func(time.Time, RuntimeResponse, Out)) (id CallID) {
	until := now.Add(timeout)
	id = out.Call(k.of.runtime, fmt.Sprintf("%T", do), RuntimeRequest{Boot: k.incarnation.boot, Until: until, Do: do}, timeout)
	answered := k.api.contacts.BeginCall(methodOf(do))
	k.runtime.calls[id] = &runtimeCall{func(now time.Time, answer RuntimeResponse, out Out) {
		if waitsForContainer(do) && !now.Before(until) { // which is as long as it was to take
			answer = RuntimeResponse{Err: refuse(proto.CodeDeadlineExceeded, "context deadline exceeded")}
		}
		answered(answer.Err)
		then(now, answer, out)
	}}
	return id
}

// waitsForContainer reports whether a call waits for a container, which may take any time. A
// missing answer then says nothing about the runtime.
func waitsForContainer(do any) bool {
	switch do.(type) {
	case StartContainer, Exec, Reach:
		return true
	}
	return false
}

func (k *kubeletProcess) handleAnswer(in Answered) {
	answer, ok := in.Body.(RuntimeResponse)
	if in.Err != nil || !ok {
		answer = RuntimeResponse{Err: refuse(proto.CodeUnavailable, "the runtime does not answer")}
	}
	k.endCall(in.Call, answer)
}

// endCall ends a call, unless it has ended.
func (k *kubeletProcess) endCall(id CallID, answer RuntimeResponse) {
	if call := k.runtime.calls[id]; call != nil {
		delete(k.runtime.calls, id)
		call.then(k.incarnation.now, answer, k.out)
	}
}

// handleNews handles a change in the runtime, or a new runtime. A new runtime aborts the calls to
// the old one.
func (k *kubeletProcess) handleNews(news News) {
	k.runtime.wanted, k.runtime.still = true, false
	if old := k.runtime.boot; old == news.Boot || old == "" {
		k.runtime.boot = news.Boot
		return
	}
	k.runtime.boot = news.Boot
	for _, id := range slices.Sorted(maps.Keys(k.runtime.calls)) {
		k.handleAnswer(Answered{Call: id})
	}
}

// runAt runs a function at a time.
func (k *kubeletProcess) runAt(at time.Time, out Out, do func(time.Time, Out)) (key string) {
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
	k.callRuntime(now, List{}, listTimeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
		k.runtime.listing = false
		listing, ok := answer.Body.(Listing)
		if answer.Err != nil || !ok {
			k.runtime.views.RecordFailure(now)
			k.runtime.still = false
			if _, listed := k.runtime.views.Last(""); listed {
				k.runtime.wanted = true
			} else {
				k.timers.set("relist", now.Add(firstRelist), k.relist, out)
			}
			return
		}
		k.runtime.last, k.runtime.boot = listing, cmp.Or(k.runtime.boot, listing.Boot)
		if k.runtime.views.RecordListing(question, listing.Sandboxes, listing.Containers) {
			k.untidied = true
		}
		k.timers.set("relist", k.nextTick(now.Add(idleRelist), k.of.timing.Relist.Period), k.relist, out)
		close(k.runtime.next)
		k.runtime.next = make(chan struct{})
	})
}

// podNewerThan returns what the runtime holds of a pod. fresh means that it was listed after the
// given time.
func (k *kubeletProcess) podNewerThan(uid types.UID, than time.Time) (seen podstate.Pod, fresh bool) {
	now := k.incarnation.now
	if tick := k.nextTick(now, k.of.timing.Relist.Period).Add(-k.of.timing.Relist.Period); k.runtime.still && !k.runtime.listing && tick.After(than) {
		// The product has listed again at the last tick, and seen the same.
		k.runtime.views.RecordListing(k.runtime.views.Ask(tick), k.runtime.last.Sandboxes, k.runtime.last.Containers)
	}
	return k.runtime.views.NewerThan(uid, than)
}

// scheduleCollection removes dead containers from the runtime every minute (KBL-61).
func (k *kubeletProcess) scheduleCollection(now time.Time, out Out) {
	k.timers.set("collect", k.nextTick(now, k.of.timing.Loop.Collect), func(now time.Time, out Out) {
		k.scheduleCollection(now, out)
		for _, seen := range k.runtime.views.All() {
			k.collectPod(now, seen, out)
		}
	}, out)
}

// collectPod removes the dead containers of one pod.
func (k *kubeletProcess) collectPod(now time.Time, seen podstate.Pod, out Out) {
	gone := k.ready && k.pods[seen.UID] == nil && !k.hasWorker(seen.UID) && seen.IsIdle()
	for _, c := range seen.Containers {
		old := c != seen.Latest(c.GetName()) && c != seen.Previous(c.GetName())
		if !podstate.Alive(c) && (gone || old) {
			k.callRuntime(now, RemoveContainer{c.GetId()}, runtimeTimeout, out, ignore)
		}
	}
	for i, s := range seen.Sandboxes {
		used := slices.ContainsFunc(seen.Containers, func(c *proto.Container) bool { return c.GetSandboxId() == s.GetId() })
		if gone || i > 0 && !used {
			k.callRuntime(now, RemoveSandbox{s.GetId()}, runtimeTimeout, out, ignore)
		}
	}
}

func ignore(time.Time, RuntimeResponse, Out) {}
