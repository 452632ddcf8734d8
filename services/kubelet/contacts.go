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

// Contacts records the kubelet's requests to the apiserver and its runtime calls: those that wait,
// and the results of the last ones. It is safe for concurrent use, and never blocks.
type Contacts struct {
	now func() time.Time

	mu sync.Mutex
	unanswered
	api     inspect.Contact
	runtime inspect.Contact
	refused map[string]inspect.Refusal
}

// unanswered are the requests and calls that wait for an answer.
type unanswered struct {
	lastID   uint64
	calls    map[uint64]inspect.Call // of the runtime
	requests map[uint64]time.Time    // requests of the API
}

// NewContacts returns empty contacts. now returns steady time, [clock.Clock.Steady].
func NewContacts(now func() time.Time) *Contacts {
	return &Contacts{
		now: now, unanswered: unanswered{calls: map[uint64]inspect.Call{}, requests: map[uint64]time.Time{}}, refused: map[string]inspect.Refusal{},
	}
}

// BeginRequest records a request of the API. The returned function records its result.
func (c *Contacts) BeginRequest(verb proto.Verb, target podapi.Target, uid string) (answered func(error)) {
	began := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	id := c.lastID
	c.requests[id] = began
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.requests, id)
		refusal, heard := refusalIn(err)
		if !heard {
			recordUnanswered(&c.api, began, err)
			return
		}
		c.api = inspect.Contact{Last: c.now()}
		c.recordRefusal(verb, target, uid, refusal)
	}
}

// refusalIn returns the API's refusal in an error, nil for none. Heard is false if there was no
// answer at all.
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

// recordUnanswered records that a request that began at an instant was not answered.
func recordUnanswered(c *inspect.Contact, began time.Time, err error) {
	if errors.Is(err, context.Canceled) {
		return // the caller no longer wants the answer
	}
	if c.Failing.IsZero() {
		c.Failing = began
	}
	c.Err = err.Error()
}

// recordRefusal keeps the last refusal of each request, until an equal request is accepted. The
// caller holds the lock.
func (c *Contacts) recordRefusal(verb proto.Verb, target podapi.Target, uid string, refusal apierrors.APIStatus) {
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
	if len(c.refused) < maxRefusals || before.Count > 0 {
		c.refused[key] = r
	}
}

// maxRefusals bounds the refusals that are kept.
const maxRefusals = 1000

// BeginCall records a call of the runtime. The returned function records its result.
func (c *Contacts) BeginCall(method, id string) (answered func(error)) {
	began := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	number := c.lastID
	c.calls[number] = inspect.Call{Method: method, ID: id, Since: began}
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, number)
		if proto.IsRuntimeUnavailable(err) {
			recordUnanswered(&c.runtime, began, err)
		} else if err == nil || !proto.IsRuntimeCode(err, proto.CodeDeadlineExceeded) {
			c.runtime = inspect.Contact{Last: c.now()}
		}
	}
}

// Fill adds the contacts to the report of a kubelet. It moves all times of the report to steady
// time by their age at Now, whatever the clock showed then.
func (c *Contacts) Fill(report *inspect.Kubelet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown := report.Now
	report.Now, report.API, report.Runtime = c.now(), c.api, c.runtime
	for _, began := range c.requests { // one that waits for long is as good as failed
		if report.Now.Sub(began) > longWait && (report.API.Failing.IsZero() || began.Before(report.API.Failing)) {
			report.API.Failing = began
			report.API.Err = cmp.Or(report.API.Err, "a request has not been answered yet")
		}
	}
	report.Calls = slices.SortedFunc(maps.Values(c.calls), func(a, b inspect.Call) int { return a.Since.Compare(b.Since) })
	report.Refused = slices.SortedFunc(maps.Values(c.refused), func(a, b inspect.Refusal) int { return a.First.Compare(b.First) })
	*report = report.Shift(shown.Sub(report.Now))
}

// longWait is how long the API may take to answer before it counts as failing.
const longWait = 3 * time.Second

// WorkerReport returns what a worker is doing, for inspection. Stays is why its pod's directories
// are not removed, or nil.
func WorkerReport(view podworker.View, stays error) inspect.PodWorker {
	work := inspect.PodWorker{UID: string(view.UID), State: view.State.String(), Removed: view.Removed}
	work.Step, work.Since, work.Grace = view.Doing, view.Since, view.Grace
	work.Err, work.Failed, work.First = view.LastErr, view.Failures, view.FailingSince
	if view.Pod != nil {
		work.Namespace, work.Name = view.Pod.Namespace, view.Pod.Name
		work.Marked = view.Pod.DeletionTimestamp != nil || view.Removed
	}
	if stays != nil && work.Step == inspect.StepRemoveDirs {
		work.Err, work.Failed, work.First = stays.Error(), max(1, work.Failed), work.Since
	}
	return work
}
