package kubelet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podworker"
)

// Contacts is how a kubelet gets on with the apiserver and the runtime: what it has asked
// them, and what came of it. It is safe for concurrent use, and never blocks.
type Contacts struct {
	now func() time.Time

	mu sync.Mutex
	open
	api     inspect.Contact
	runtime inspect.Contact
	refused map[string]inspect.Refusal
}

// open is what has not been answered.
type open struct {
	made   uint64
	calls  map[uint64]inspect.Call // of the runtime
	asking map[uint64]time.Time    // requests of the API
}

// NewContacts has asked nobody anything; now is the time that passes, [clock.Clock.Steady].
func NewContacts(now func() time.Time) *Contacts {
	return &Contacts{
		now: now, open: open{calls: map[uint64]inspect.Call{}, asking: map[uint64]time.Time{}}, refused: map[string]inspect.Refusal{},
	}
}

// Asks notes a request of the API, and gives back what notes its outcome.
func (c *Contacts) Asks(verb proto.Verb, target podapi.Target, uid string) (answered func(error)) {
	began := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	id := c.made
	c.asking[id] = began
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asking, id)
		refusal, heard := refusalIn(err)
		if !heard {
			failed(&c.api, began, err)
			return
		}
		c.api = inspect.Contact{Last: c.now()}
		c.note(verb, target, uid, refusal)
	}
}

// refusalIn is the API's refusal in an error, nil for none; heard is false when there was
// no answer at all.
func refusalIn(err error) (refusal apierrors.APIStatus, heard bool) {
	switch {
	case err == nil:
		return nil, true
	case !errors.As(err, &refusal):
		return nil, false
	}
	status := refusal.Status()
	away := status.Code >= 503 && (strings.Contains(status.Message, "the apiserver was not to be reached") ||
		strings.Contains(status.Message, "no answer from the apiserver"))
	return refusal, !away
}

// failed notes a request that began at an instant and was not answered.
func failed(c *inspect.Contact, began time.Time, err error) {
	if errors.Is(err, context.Canceled) {
		return // nobody wanted the answer any more
	}
	if c.Failing.IsZero() {
		c.Failing = began
	}
	c.Err = err.Error()
}

// note keeps the last refusal of each request, until one like it is taken. It is called
// under the lock.
func (c *Contacts) note(verb proto.Verb, target podapi.Target, uid string, refusal apierrors.APIStatus) {
	r := inspect.Refusal{Verb: string(verb), Resource: target.Kind.GroupResource().String(), Key: target.Name, UID: uid}
	if target.Subresource != "" {
		r.Resource += "/" + target.Subresource
	}
	if target.Namespace != "" {
		r.Key = target.Namespace + "/" + target.Name
	}
	key := r.Verb + " " + r.Resource + " " + r.Key + " " + uid
	if refusal == nil || refusal.Status().Code == 404 || refusal.Status().Code == 409 {
		delete(c.refused, key)
		return
	}
	before, now := c.refused[key], c.now()
	r.Code, r.Message, r.Last, r.Count = refusal.Status().Code, refusal.Status().Message, now, before.Count+1
	if r.First = before.First; r.First.IsZero() {
		r.First = now
	}
	if len(c.refused) < mostRefusals || before.Count > 0 {
		c.refused[key] = r
	}
}

// mostRefusals bounds what is kept.
const mostRefusals = 1000

// Calls notes a call of the runtime, and gives back what notes its outcome.
func (c *Contacts) Calls(method, id string) (answered func(error)) {
	began := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	number := c.made
	c.calls[number] = inspect.Call{Method: method, ID: id, Since: began}
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, number)
		if proto.IsRuntimeUnavailable(err) {
			failed(&c.runtime, began, err)
		} else if err == nil || !proto.IsRuntimeCode(err, proto.CodeDeadlineExceeded) {
			c.runtime = inspect.Contact{Last: c.now()}
		}
	}
}

// Tell fills in what a kubelet says of them: as long before said.Now as it was, whatever the clock
// showed then. So is the rest of what it says, which goes by the contacts' clock until here.
func (c *Contacts) Tell(said *inspect.Kubelet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := said.Now
	said.Now, said.API, said.Runtime = c.now(), c.api, c.runtime
	for _, began := range c.asking { // one that waits for long is as good as failed
		if said.Now.Sub(began) > longWait && (said.API.Failing.IsZero() || began.Before(said.API.Failing)) {
			said.API.Failing = began
			said.API.Err = cmp.Or(said.API.Err, "a request has not been answered yet")
		}
	}
	said.Calls = slices.SortedFunc(maps.Values(c.calls), func(a, b inspect.Call) int { return a.Since.Compare(b.Since) })
	said.Refused = slices.SortedFunc(maps.Values(c.refused), func(a, b inspect.Refusal) int { return a.First.Compare(b.First) })
	*said = said.Shift(shown.Sub(said.Now))
}

// longWait is how long the API may take to answer before the kubelet worries.
const longWait = 3 * time.Second

// WorkOf is what a worker is at, for whoever inspects the kubelet; stays is why its pod's
// directories are not removed, nil for no reason.
func WorkOf(view podworker.View, stays error) inspect.PodWorker {
	work := inspect.PodWorker{UID: string(view.UID), State: view.State.String(), Removed: view.Removed}
	work.Step, work.Since, work.Grace = view.Doing, view.Since, view.Grace
	work.Err, work.Failed, work.First = view.Err, view.Failed, view.First
	if view.Pod != nil {
		work.Namespace, work.Name = view.Pod.Namespace, view.Pod.Name
		work.Marked = view.Pod.DeletionTimestamp != nil || view.Removed
	}
	if stays != nil && work.Step == inspect.StepRemoveDirs {
		work.Err, work.Failed, work.First = stays.Error(), max(1, work.Failed), work.Since
	}
	return work
}
