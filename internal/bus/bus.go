// Package bus carries podfall's messages: requests with an answer in one part or many, and events
// to subscribers. No other package knows that the carrier is NATS. [Dial] connects to a bus
// anywhere, [StartServer] runs one in this process, and [PermissionsFor] defines which identity may
// publish and read what.
//
// The bus stores nothing, repeats nothing and orders nothing across connections. A message that
// cannot be sent at once is never sent later, so that nothing stale crosses a path that was cut and
// has healed.
//
// # Order
//
// Messages of one Conn arrive at any other Conn in the order of sending. A Subscribe takes effect
// before a later Request of the same Conn is answered. Calls that one Conn serves run concurrently,
// in no order.
//
// # Blocking
//
// Publish, Subscribe and the sending half of a request write to a buffer. Request and Stream wait
// for their own answer only. A reader that stops reading a Stream stops its own answer only. A
// reader that stops calling Next loses messages and gets an error for it.
//
// # Errors
//
// While the connection is down, sending fails at once with [ErrDisconnected], and so do the
// requests that were waiting. A request to a subject without a server fails at once with
// [ErrNoResponder]. Retries are the caller's decision.
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

// The errors of a bus.
var (
	// ErrClosed means that the owner closed the Conn or the Subscription.
	ErrClosed = errors.New("bus: closed")
	// ErrDisconnected means that there is no connection, or that it broke while the call waited.
	// What was sent may or may not have arrived.
	ErrDisconnected = errors.New("bus: disconnected")
	// ErrNoResponder means that nothing serves the subject. The request had no effect.
	ErrNoResponder = errors.New("bus: no process serves this subject")
	// ErrMissedMessages means that a reader lost messages, because it was too slow or because the
	// connection was made again.
	ErrMissedMessages = errors.New("bus: the reader has lost messages")
	// ErrTooLarge means that the message exceeds the bus's maximum size.
	ErrTooLarge = errors.New("bus: message too large")
	// ErrForbidden means that the identity may not publish or read the subject.
	ErrForbidden = errors.New("bus: forbidden to this identity")
	// ErrAbandoned means that the responder ended a call without an answer.
	ErrAbandoned = errors.New("bus: the call ended without an answer")
	// ErrPeerGone means that the reader of an answer in parts, or the other side of a pipe, has
	// left.
	ErrPeerGone = errors.New("bus: the reader of the answer is gone")
)

// Config says where a bus is and which identity connects.
type Config struct {
	// URLs are the addresses of the bus or of any NATS server, for example nats://127.0.0.1:4222.
	// They are ignored if InProcess is set.
	URLs []string
	// Identity is the connecting identity; everything is sent under it.
	Identity proto.Identity
	// Seed is the nkey seed that proves Identity to a bus with authentication; nil for none. A bus
	// without authentication is open to everyone.
	Seed []byte
	// InProcess opens a connection without a socket, for example (*Server).InProcessConn. It is
	// called again for each reconnect.
	InProcess func() (net.Conn, error)
	// Log receives lost and restored connections; it may be nil.
	Log *slog.Logger
}

// Conn is a connection to a bus. It is safe for concurrent use.
type Conn struct {
	id      proto.Identity
	connect func() (*session, error)
	log     *slog.Logger
	inbox   inbox
	changes chan bool
	broken  chan *session
	group   *daemon.Group
	closed  atomic.Bool

	current atomic.Pointer[session] // never nil after Dial, but may have ended
	mu      sync.Mutex              // guards subs, and changes of current
	subs    map[*Subscription]struct{}
}

// Dial connects, and waits for the first connection until ctx ends. After that the Conn reconnects
// for ever, at most half a second apart. Nothing is queued while it is disconnected. Dial fails at
// once with [ErrForbidden] if the bus does not know the identity's key. Close the Conn when done.
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
	c.group = daemon.NewGroup(context.WithoutCancel(ctx))
	c.group.Go(c.maintain)
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
	// Twelve characters distinguish the inboxes of several connections of one identity.
	c.inbox.init(c.id, strings.ToLower(rand.Text()[:12]))
	var err error
	c.connect, err = c.newConnector(context.WithoutCancel(ctx), cfg)
	return c, err
}

// Identity returns the identity of this connection.
func (c *Conn) Identity() proto.Identity { return c.id }

// Connected reports whether the connection is up, as far as is known.
func (c *Conn) Connected() bool { return c.current.Load().isAlive() }

// Changes receives false for each lost connection and true for each restored one. It holds only the
// latest change and is meant for one reader.
func (c *Conn) Changes() <-chan bool { return c.changes }

// Close disconnects, ends every call and Subscription of the Conn with [ErrClosed], and waits for
// the goroutines of the Conn. It may be called more than once.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.group.Stop()
	// maintain does not fail.
	_ = c.group.Wait()
	c.inbox.failAll(ErrClosed)
	for _, sub := range c.listSubscriptions() {
		sub.closeWith(ErrClosed)
	}
}

// Publish sends data to all subscribers of subject. It does not wait for the data to be sent. It
// keeps no reference to data.
func (c *Conn) Publish(subject string, data []byte) error {
	if err := c.send(subject, "", data); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}

// Flush waits until the bus has processed everything sent and subscribed on this Conn before. If
// the bus takes longer than 5 seconds, the connection is made again.
func (c *Conn) Flush(ctx context.Context) error {
	limited, cancel := clock.Clock{}.Timeout(ctx, sendTimeout)
	defer cancel()
	s := c.current.Load()
	err := s.nc.FlushWithContext(limited)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = errNoFlushAnswer
	}
	return fmt.Errorf("flush: %w", c.convertError(s, err, 0))
}

// errNoFlushAnswer is the cause of a connection that was closed because the bus did not answer.
var errNoFlushAnswer = errors.New("the bus does not answer a flush")

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

// send writes one message to the connection's buffer.
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
	return c.convertError(s, err, len(data))
}

// convertError converts an error of nats.go to one of this package.
func (c *Conn) convertError(s *session, err error, size int) error {
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
	// The message is stuck in the connection's buffer, perhaps behind others.
	select {
	case c.broken <- s:
	default:
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, err)
}

// handleAsyncError handles errors that NATS reports after the call that caused them.
func (c *Conn) handleAsyncError(ctx context.Context, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		c.log.InfoContext(ctx, "bus reader has missed messages", "identity", c.id, "subject", sub.Subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		c.log.WarnContext(ctx, "bus refused a message", "identity", c.id, "error", err)
		c.failSubject(err)
	default:
		c.log.InfoContext(ctx, "bus connection in trouble", "identity", c.id, "error", err)
	}
}

// failSubject fails the calls and readers of the subject that a permission error quotes.
func (c *Conn) failSubject(err error) {
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	forbidden := fmt.Errorf("%w: %s: %s", ErrForbidden, c.id, subject)
	c.inbox.failRequests(subject, forbidden)
	if !strings.Contains(strings.ToLower(err.Error()), "subscription") {
		return
	}
	for _, sub := range c.listSubscriptions() {
		if sub.subject == subject {
			sub.closeWith(forbidden)
		}
	}
}

func (c *Conn) listSubscriptions() []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.subs))
}
