package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/proto"
)

// An answer is one message to the request's reply subject, or several. A part with a reply
// subject of its own is followed by more parts, and its sender expects credits there:
//
//	requester                                     responder
//	    | --- request, reply=r.me.you.c1.7 ---------> |
//	    | <-- part, reply=r.you.me.c2.3 ------------- |   more follow
//	    | <-- part, reply=r.you.me.c2.3 ------------- |
//	    | --- "4" to r.you.me.c2.3 -----------------> |   four parts were consumed
//	    | <-- part ---------------------------------- |   the last
//
// A responder may be streamWindow parts ahead of what was consumed, and the last part needs no
// credit. Instead of a number the requester may send "gone".
const (
	streamWindow = 8
	goneMessage  = "gone"
)

// abandonedHeader marks a message that ends an answer without being part of it.
const abandonedHeader = "Podfall-Abandoned"

// errInParts means that a responder answered a Request as if it were a Stream.
var errInParts = errors.New("bus: the answer came in parts")

// part is one message of an answer, or the error that ends it.
type part struct {
	data   []byte
	credit string // subject for credits; empty for the last part
	err    error
}

// pendingAnswer receives the parts of one answer.
type pendingAnswer struct {
	subject  string
	request  string
	ended    bool // written under the inbox's lock
	capacity int
	parts    chan part
}

func newPendingAnswer(subject, request string, room int) *pendingAnswer {
	// One more than the capacity, so that the end always fits.
	return &pendingAnswer{subject: subject, request: request, capacity: room, parts: make(chan part, room+1)}
}

func (a *pendingAnswer) subjects() (subject, request string) { return a.subject, a.request }

func (a *pendingAnswer) handle(msg *nats.Msg) {
	switch {
	case a.ended:
	case msg.Header != nil && msg.Header.Get("Status") == "503" && len(msg.Data) == 0:
		a.fail(ErrNoResponder)
	case msg.Header != nil && msg.Header.Get(abandonedHeader) != "":
		a.fail(ErrAbandoned)
	case len(a.parts) >= a.capacity:
		a.fail(ErrMissedMessages)
	default:
		a.ended = msg.Reply == ""
		a.parts <- part{data: msg.Data, credit: msg.Reply}
	}
}

func (a *pendingAnswer) fail(err error) {
	if !a.ended {
		a.ended = true
		a.parts <- part{err: err}
	}
}

// Request sends data to the identity to, which serves subject, and returns its answer. Messages of
// other identities are never accepted as the answer. Request fails at once if nothing serves the
// subject or the connection is down, and with ctx's error when ctx ends. If ctx has ended before,
// nothing is sent.
func (c *Conn) Request(ctx context.Context, to proto.Identity, subject string, data []byte) ([]byte, error) {
	a, number, err := c.sendRequest(ctx, to, subject, data, 1)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", subject, err)
	}
	defer c.inbox.remove(number)
	select {
	case p := <-a.parts:
		if p.err == nil && p.credit != "" {
			p.err = errInParts
			if c.isCreditSubject(to.Token(), p.credit) {
				c.sendGone(ctx, p.credit)
			}
		}
		if p.err != nil {
			return nil, fmt.Errorf("request %s: %w", subject, p.err)
		}
		return p.data, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", subject, ctx.Err())
	}
}

// sendRequest registers a receiver for the answer and sends a request, unless ctx has ended.
func (c *Conn) sendRequest(
	ctx context.Context, to proto.Identity, subject string, data []byte, room int,
) (*pendingAnswer, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	var a *pendingAnswer
	number := c.inbox.add(to, func(reply string) receiver {
		a = newPendingAnswer(reply, subject, room)
		return a
	})
	if err := c.send(subject, a.subject, data); err != nil {
		c.inbox.remove(number)
		return nil, 0, err
	}
	return a, number, nil
}

// Stream is Request for an answer that comes in parts, in order. The responder is at most 8 parts
// ahead of the loop that reads them. Leaving the loop early stops the responder. The last pair may
// be an error: then the answer is incomplete.
func (c *Conn) Stream(ctx context.Context, to proto.Identity, subject string, data []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		a, number, err := c.sendRequest(ctx, to, subject, data, streamWindow+1)
		if err != nil {
			yield(nil, fmt.Errorf("stream %s: %w", subject, err))
			return
		}
		defer c.inbox.remove(number)
		r := streamReader{conn: c, answer: a, from: to.Token()}
		if err := r.run(ctx, yield); err != nil {
			yield(nil, fmt.Errorf("stream %s: %w", subject, err))
		}
	}
}

// streamReader passes the parts of one answer to a loop, and credits to their sender.
type streamReader struct {
	conn   *Conn
	answer *pendingAnswer
	from   string
	credit string
	count  int
}

// run returns nil if the loop has received all that it wants, and an error otherwise.
func (r *streamReader) run(ctx context.Context, yield func([]byte, error) bool) error {
	for {
		var p part
		select {
		case p = <-r.answer.parts:
		case <-ctx.Done():
			r.sendGone(ctx)
			return ctx.Err()
		}
		if p.err != nil {
			return p.err
		}
		if p.credit != "" && p.credit != r.credit {
			if !r.conn.isCreditSubject(r.from, p.credit) {
				return fmt.Errorf("%w: credits wanted at %s", ErrForbidden, p.credit)
			}
			r.credit = p.credit
		}
		if !yield(p.data, nil) {
			if p.credit != "" {
				r.sendGone(ctx)
			}
			return nil
		}
		if p.credit == "" {
			return nil
		}
		if err := r.sendCredit(); err != nil {
			return err
		}
	}
}

// sendCredit counts a consumed part and sends a credit twice in a window.
func (r *streamReader) sendCredit() error {
	r.count++
	if r.count%(streamWindow/2) != 0 {
		return nil
	}
	return r.conn.send(r.credit, "", strconv.AppendInt(nil, int64(r.count), 10))
}

func (r *streamReader) sendGone(ctx context.Context) {
	if r.credit != "" {
		r.conn.sendGone(ctx, r.credit)
	}
}

// isCreditSubject reports whether subject is in the responder's inbox, reserved for this identity.
func (c *Conn) isCreditSubject(responder, subject string) bool {
	rest, ok := strings.CutPrefix(subject, proto.RootReply+"."+responder+".")
	return ok && strings.HasPrefix(rest, c.inbox.token+".")
}

// sendGone tells the sender of an answer that its reader has left. If the message is lost, the
// sender times out.
func (c *Conn) sendGone(ctx context.Context, credit string) {
	if err := c.send(credit, "", []byte(goneMessage)); err != nil {
		c.log.DebugContext(ctx, "could not stop an answer", "identity", c.id, "error", err)
	}
}
