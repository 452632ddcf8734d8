// Package bus carries podfall's messages: requests with an answer in one part or in
// many, and events to whoever listens. It is the only package that knows that the
// carrier is NATS. [Dial] connects to a bus anywhere, [StartServer] is one in this
// process, and [PermissionsFor] is who may say what on it.
//
// What it does not do: it keeps nothing, repeats nothing and orders nothing across
// connections. A message that could not be sent at once is not sent later either, so
// that nothing stale crosses a path that was cut and has healed.
//
// # Order
//
// Messages that one Conn sends arrive at any other Conn in that order, and a
// Subscribe takes effect before a later Request of the same Conn is answered.
// Calls that one Conn serves run beside each other, in no order.
//
// # Blocking
//
// Publish, Subscribe and the sending half of a request hand bytes to a buffer. Request
// and Stream wait for their own answer only; a reader that stops reading a Stream
// stops its own answer only. A reader that stops calling Next loses messages and is
// told so.
//
// # Errors
//
// While the connection is down, everything that would send fails at once with
// [ErrDisconnected], and so do the requests that were waiting. A request that nobody
// serves fails at once with [ErrNoResponder]. Trying again is the caller's decision.
package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
)

// The reasons for which a bus refuses or gives up.
var (
	// ErrClosed means that the Conn or the Subscription was closed by its owner.
	ErrClosed = errors.New("bus: closed")
	// ErrDisconnected means that there is no connection now, or that it broke while
	// the call waited; what was sent may or may not have arrived.
	ErrDisconnected = errors.New("bus: disconnected")
	// ErrNoResponder means that nobody serves the subject; nothing has happened.
	ErrNoResponder = errors.New("bus: nobody serves this subject")
	// ErrBehind means that messages were lost for a reader, because it was too slow or
	// because the connection was made again.
	ErrBehind = errors.New("bus: the reader has missed messages")
	// ErrTooLarge means that the message exceeds what the bus carries.
	ErrTooLarge = errors.New("bus: message too large")
	// ErrForbidden means that the identity may not publish or read the subject.
	ErrForbidden = errors.New("bus: forbidden to this identity")
	// ErrAbandoned means that the other side ended a call without an answer.
	ErrAbandoned = errors.New("bus: the call was given up without an answer")
	// ErrGone means that the reader of an answer in parts no longer wants it.
	ErrGone = errors.New("bus: the reader of the answer is gone")
)

// Config says where a bus is and who connects.
type Config struct {
	// URLs of the bus or of any NATS server, such as nats://127.0.0.1:4222; ignored
	// when InProcess is set.
	URLs []string
	// Identity is who connects; everything is sent under it.
	Identity proto.Identity
	// Seed is the nkey seed of Identity, which proves it to a bus that asks; nil when
	// there is none. A bus that asks nobody for a key is open to everyone.
	Seed []byte
	// InProcess opens a connection without a socket: (*Server).InProcessConn, or a
	// link's. It is called again for each reconnect.
	InProcess func() (net.Conn, error)
	// Log is told of lost and found connections; nil discards.
	Log *slog.Logger
}

// Conn is one party's connection to a bus. It is safe for concurrent use.
type Conn struct {
	id      proto.Identity
	connect func() (*session, error)
	log     *slog.Logger
	inbox   inbox
	changes chan bool
	broken  chan *session
	keeper  *daemon.Group
	closed  atomic.Bool

	current atomic.Pointer[session] // never nil after Dial; may have ended
	mu      sync.Mutex              // for subs, and while current changes
	subs    map[*Subscription]struct{}
}

// Dial connects, and waits for the first connection until ctx ends. From then on the
// Conn reconnects for ever, with waits of at most half a second; nothing is kept to be
// sent later. It fails at once with [ErrForbidden] when the bus does not know the
// identity's key. Close the Conn when done.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	c, err := newConn(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("dial bus as %s: %w", cfg.Identity, err)
	}
	if err := c.reconnect(ctx, func(err error) error {
		if errors.Is(err, nats.ErrAuthorization) {
			return fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("dial bus as %s: %w", cfg.Identity, err)
	}
	c.keeper = daemon.NewGroup(context.WithoutCancel(ctx))
	c.keeper.Go(c.keep)
	return c, nil
}

func newConn(ctx context.Context, cfg Config) (*Conn, error) {
	c := &Conn{
		id:      cfg.Identity,
		log:     cfg.Log,
		changes: make(chan bool, 1),
		broken:  make(chan *session, 1),
		subs:    map[*Subscription]struct{}{},
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	// Twelve characters keep apart the inboxes of several connections of one identity.
	c.inbox.init(c.id, strings.ToLower(rand.Text()[:12]))
	var err error
	c.connect, err = c.connector(context.WithoutCancel(ctx), cfg)
	return c, err
}

// Identity is who this connection speaks for.
func (c *Conn) Identity() proto.Identity { return c.id }

// Connected reports whether there is a connection now, as far as is known.
func (c *Conn) Connected() bool { return c.current.Load().alive() }

// Changes tells of each lost (false) and remade (true) connection. It holds only the
// latest, and is meant for one reader.
func (c *Conn) Changes() <-chan bool { return c.changes }

// Close disconnects, ends every call and Subscription of the Conn with [ErrClosed],
// and waits for the goroutines of the Conn. It may be called more than once.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.keeper.Stop()
	// The keeper does not fail.
	_ = c.keeper.Wait()
	c.inbox.failAll(ErrClosed)
	for _, sub := range c.subscriptions() {
		sub.end(ErrClosed)
	}
}

// Publish sends data to everyone who listens to subject, and does not wait for it to
// leave. It keeps no reference to data.
func (c *Conn) Publish(subject string, data []byte) error {
	if err := c.send(subject, "", data); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}

// Flush waits until the bus has taken note of everything that was sent and subscribed
// on this Conn before. A bus that has not after 5 seconds is away: the connection is made
// again.
func (c *Conn) Flush(ctx context.Context) error {
	limited, cancel := clock.Clock{}.Timeout(ctx, sendTimeout)
	defer cancel()
	s := c.current.Load()
	err := s.nc.FlushWithContext(limited)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = errSilent
	}
	return fmt.Errorf("flush: %w", c.cause(s, err, 0))
}

// errSilent is the cause of a connection that was given up because the bus said nothing.
var errSilent = errors.New("the bus says nothing")

// maxSubject is the longest subject in bytes. A subject and its reply subject are one control line of
// NATS, which ends the connection of a client that sends a line of more than 4,096 bytes.
const maxSubject = 3584

// checkSubject refuses a subject that would cost the connection.
func checkSubject(subject string) error {
	if len(subject) > maxSubject {
		return fmt.Errorf("%w: a subject of %d bytes, and the bus carries %d", ErrTooLarge, len(subject), maxSubject)
	}
	return nil
}

// send hands one message to the connection's buffer.
func (c *Conn) send(subject, reply string, data []byte) error {
	if err := checkSubject(subject); err != nil {
		return err
	}
	s := c.current.Load()
	var err error
	if reply == "" {
		err = s.nc.Publish(subject, data)
	} else {
		err = s.nc.PublishRequest(subject, reply, data)
	}
	if err == nil {
		return nil
	}
	return c.cause(s, err, len(data))
}

// cause turns an error of nats.go into one of ours.
func (c *Conn) cause(s *session, err error, size int) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, nats.ErrBadSubject):
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes, and the bus carries %d", ErrTooLarge, size, s.nc.MaxPayload())
	case c.closed.Load():
		return ErrClosed
	case errors.Is(err, nats.ErrConnectionClosed):
		return ErrDisconnected
	}
	// The message got stuck on its way out, perhaps with others before it.
	select {
	case c.broken <- s:
	default:
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, err)
}

// failed is told what NATS finds out later than the call that caused it.
func (c *Conn) failed(ctx context.Context, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		c.log.InfoContext(ctx, "bus reader has missed messages", "identity", c.id, "subject", sub.Subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		c.log.WarnContext(ctx, "bus refused a message", "identity", c.id, "error", err)
		c.refused(err)
	default:
		c.log.InfoContext(ctx, "bus connection in trouble", "identity", c.id, "error", err)
	}
}

// refused fails the calls and readers of the subject that NATS names in quotes.
func (c *Conn) refused(err error) {
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	forbidden := fmt.Errorf("%w: %s: %s", ErrForbidden, c.id, subject)
	c.inbox.failRequests(subject, forbidden)
	if !strings.Contains(strings.ToLower(err.Error()), "subscription") {
		return
	}
	for _, sub := range c.subscriptions() {
		if sub.subject == subject {
			sub.end(forbidden)
		}
	}
}

func (c *Conn) subscriptions() []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.subs))
}
