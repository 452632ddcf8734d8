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

// Client sends a process's requests to the apiserver, as podapi.Client does in the product. It
// builds the envelope. An unanswered request is sent again with the same operation id, until Limit
// has passed. A process makes one per incarnation, and hands every Input to Step first.
type Client struct {
	Identity proto.Identity
	Boot     proto.Boot
	// Limit is how long a request may take, sending again included; 30 s when zero. A try
	// has a third of it.
	Limit time.Duration
	// Decoded is the world's.
	Decoded *Decoded

	asked   uint64
	calls   map[CallID]*pendingRequest
	waiting map[string]*pendingRequest
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

// Outcome is the result of a request.
type Outcome struct {
	// Object is the object or *metav1.Status of the answer; nil for a list, a watch and after an
	// error. It is shared with other processes and must not be changed.
	Object runtime.Object
	// Parts is the whole answer.
	Parts []*proto.Response
	// Err is an apierrors value for a refusal, or [ErrNoAnswer] if it is unknown whether the
	// request was carried out.
	Err error
}

// ErrNoAnswer is the error of a request that was not answered in time.
var ErrNoAnswer = errors.New("no answer from the apiserver")

// Then receives the result of a request.
type Then func(now time.Time, got Outcome, out Out)

type pendingRequest struct {
	number  uint64 // among those of its incarnation
	about   string
	request Request
	until   time.Time
	pause   time.Duration
	then    Then
}

// retryAlarm returns the key of the alarm that sends the request again.
func (a *pendingRequest) retryAlarm() string { return clientAlarm + strconv.FormatUint(a.number, 10) }

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
		c.calls, c.waiting = map[CallID]*pendingRequest{}, map[string]*pendingRequest{}
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
	a := &pendingRequest{
		number: c.asked, about: string(ask.Verb) + " " + t.String(), request: Request{Subject: subject.String(), Envelope: envelope},
		until: now.Add(limit), pause: firstPause, then: then,
	}
	if ask.Fact != nil {
		out.Note(operation, ask.Fact)
	}
	c.send(out, a, limit)
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

func (c *Client) send(out Out, a *pendingRequest, limit time.Duration) {
	c.calls[out.Call(APIServer, a.about, a.request, limit/3)] = a
}

// Step handles the client's own inputs, and reports whether the input was one.
func (c *Client) Step(now time.Time, in Input, out Out) bool {
	switch in := in.(type) {
	case Answered:
		a := c.calls[in.Call]
		if a == nil {
			return false
		}
		delete(c.calls, in.Call)
		c.handleAnswer(now, a, in, out)
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
		c.send(out, a, min(limit, 3*a.until.Sub(now)))
		return true
	case Boot, Message, Called:
	}
	return false
}

func (c *Client) handleAnswer(now time.Time, a *pendingRequest, in Answered, out Out) {
	if at := now.Add(a.pause); in.Err != nil && at.Before(a.until) {
		a.pause = min(2*a.pause, longPause)
		c.waiting[a.retryAlarm()] = a
		out.Wake(a.retryAlarm(), at)
		return
	}
	if a.then != nil {
		a.then(now, c.parseAnswer(a.about, in), out)
	}
}

// parseAnswer parses an answer.
func (c *Client) parseAnswer(about string, in Answered) Outcome {
	if in.Err != nil {
		return Outcome{Err: fmt.Errorf("%s: %w: %w", about, ErrNoAnswer, in.Err)}
	}
	answer, ok := in.Body.(Response)
	if !ok {
		return Outcome{Err: fmt.Errorf("%s: answered with %T", about, in.Body)}
	}
	got := Outcome{Parts: answer.Parts}
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

// decode returns the object of an answer or an event.
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

// Unanswered reports whether the outcome of a request is unknown after err.
func Unanswered(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)
}
