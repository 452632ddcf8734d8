package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Client asks the apiserver for a process, as podapi.Client does in the product: it makes
// the envelope, and sends a request that nobody answers again under the same operation,
// until Limit has passed.
//
// A process makes one per incarnation, and hands every Input to Step first.
type Client struct {
	Identity proto.Identity
	Boot     proto.Boot
	// Limit is how long a request may take, sending again included; 30 s when zero. A try
	// has a third of it.
	Limit time.Duration
	// Decoded is the world's.
	Decoded *Decoded

	asked   uint64
	calls   map[CallID]*asking
	waiting map[string]*asking
}

// newClient is the client of an incarnation that has just begun.
func newClient(identity proto.Identity, boot Boot) Client {
	return Client{Identity: identity, Boot: boot.Boot, Decoded: boot.Decoded}
}

// Ask is a request.
type Ask struct {
	Verb   proto.Verb
	Target podapi.Target
	// Object is the body of a create or an update.
	Object kinds.Object
	// PatchType and Patch are the body of a patch.
	PatchType types.PatchType
	Patch     []byte
	// Options are the verb's: metav1.CreateOptions and so on; nil for the zero value.
	Options interface{ Marshal() ([]byte, error) }
	// Limit is how long the request may take, if that is less than the client's; 0 is no limit.
	Limit time.Duration
	// Fact is noted with the operation as its cause, before it is sent; nil for none.
	Fact history.Fact
}

// Got is what became of a request.
type Got struct {
	// Object is what the answer holds: the object or a *metav1.Status; nil for a list, a
	// watch and after an error. It is shared with other processes and must not be changed.
	Object runtime.Object
	// Parts is the whole answer.
	Parts []*proto.Response
	// Err is an apierrors value when the apiserver has refused, and [ErrNoAnswer] when
	// nobody knows whether the request was carried out.
	Err error
}

// ErrNoAnswer is what becomes of a request that nobody has answered in time.
var ErrNoAnswer = errors.New("no answer from the apiserver")

// Then is told what became of a request.
type Then func(now time.Time, got Got, out Out)

type asking struct {
	number  uint64 // among those of its incarnation
	about   string
	request Request
	until   time.Time
	pause   time.Duration
	then    Then
}

// again is the alarm by which it is sent again.
func (a *asking) again() string { return clientAlarm + strconv.FormatUint(a.number, 10) }

const clientAlarm = "client/"

// The rhythm of tries, as podapi's.
const (
	defaultLimit = 30 * time.Second
	firstPause   = 50 * time.Millisecond
	longPause    = time.Second
)

// Do sends a request. then may be nil.
func (c *Client) Do(now time.Time, out Out, ask Ask, then Then) error {
	if c.calls == nil {
		c.calls, c.waiting = map[CallID]*asking{}, map[string]*asking{}
	}
	limit := c.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	if ask.Limit > 0 {
		limit = min(limit, ask.Limit)
	}
	c.asked++
	operation := string(c.Boot) + "." + strconv.FormatUint(c.asked, 10)
	envelope := &proto.Request{
		Version: proto.Version, Operation: operation, Boot: string(c.Boot),
		ApiVersion: ask.Target.Kind.GroupVersion().String(), DeadlineUnixNano: now.Add(limit).UnixNano(),
	}
	if err := ask.fill(envelope); err != nil {
		return fmt.Errorf("%s %s: %w", ask.Verb, ask.Target, err)
	}
	t := ask.Target
	subject := proto.APISubject{
		Identity: c.Identity, Verb: ask.Verb, Resource: t.Kind.GroupResource().String(), Subresource: t.Subresource,
		Namespace: t.Namespace, Name: t.Name,
	}
	a := &asking{
		number: c.asked, about: string(ask.Verb) + " " + t.String(), request: Request{Subject: subject.String(), Envelope: envelope},
		until: now.Add(limit), pause: firstPause, then: then,
	}
	if ask.Fact != nil {
		out.Note(operation, ask.Fact)
	}
	c.try(out, a, limit)
	return nil
}

// fill puts body and options into the envelope.
func (ask Ask) fill(envelope *proto.Request) (err error) {
	switch {
	case ask.Object != nil:
		envelope.Body, err = kinds.Encode(ask.Object)
		envelope.ContentType = kinds.ContentTypeOf(envelope.Body)
	case ask.Patch != nil:
		envelope.Body, envelope.ContentType = ask.Patch, string(ask.PatchType)
	}
	if err == nil && ask.Options != nil {
		envelope.Options, err = ask.Options.Marshal()
	}
	return err
}

func (c *Client) try(out Out, a *asking, limit time.Duration) {
	c.calls[out.Call(APIServer, a.about, a.request, limit/3)] = a
}

// Step takes what is the client's, and reports whether it was.
func (c *Client) Step(now time.Time, in Input, out Out) bool {
	switch in := in.(type) {
	case Answered:
		a := c.calls[in.Call]
		if a == nil {
			return false
		}
		delete(c.calls, in.Call)
		c.answered(now, a, in, out)
		return true
	case Alarm:
		a := c.waiting[in.Key]
		if a == nil {
			return strings.HasPrefix(in.Key, clientAlarm)
		}
		delete(c.waiting, in.Key)
		limit := c.Limit
		if limit <= 0 {
			limit = defaultLimit
		}
		c.try(out, a, min(limit, 3*a.until.Sub(now)))
		return true
	case Boot, Message, Called:
	}
	return false
}

func (c *Client) answered(now time.Time, a *asking, in Answered, out Out) {
	if at := now.Add(a.pause); in.Err != nil && at.Before(a.until) {
		a.pause = min(2*a.pause, longPause)
		c.waiting[a.again()] = a
		out.Wake(a.again(), at)
		return
	}
	if a.then != nil {
		a.then(now, c.read(a.about, in), out)
	}
}

// read takes an answer apart.
func (c *Client) read(about string, in Answered) Got {
	if in.Err != nil {
		return Got{Err: fmt.Errorf("%s: %w: %w", about, ErrNoAnswer, in.Err)}
	}
	answer, ok := in.Body.(Response)
	if !ok {
		return Got{Err: fmt.Errorf("%s: answered with %T", about, in.Body)}
	}
	got := Got{Parts: answer.Parts}
	if len(answer.Parts) == 0 {
		got.Err = fmt.Errorf("%w: it is empty", ErrNoAnswer)
		return got
	}
	last := answer.Parts[len(answer.Parts)-1]
	if item := last.GetItem(); item != nil {
		got.Object, got.Err = c.Decoded.object(item.GetObject(), item.GetRevision())
	}
	if last.GetCode() < http.StatusBadRequest || got.Err != nil {
		return got
	}
	status, ok := got.Object.(*metav1.Status)
	if !ok {
		status = &metav1.Status{Status: metav1.StatusFailure, Code: last.GetCode()}
	}
	got.Object, got.Err = nil, proto.ErrorFrom(status)
	return got
}

// decode is an object as an answer or an event has it.
func decode(data []byte, revision uint64) (runtime.Object, error) {
	decoded, err := kinds.DecodeAny(data)
	if err != nil {
		return nil, err
	}
	if obj, ok := decoded.(kinds.Object); ok && revision != 0 {
		obj.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	return decoded, nil
}

// Unanswered reports whether err says that nobody knows what became of a request.
func Unanswered(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)
}
