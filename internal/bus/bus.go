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
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/podfall/podfall/internal/clock"
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
	// Seed is the nkey seed of Identity; nil on an open bus.
	Seed []byte
	// InProcess opens a connection without a socket: (*Server).InProcessConn, or a
	// link's. It is called again for each reconnect.
	InProcess func() (net.Conn, error)
	// Log is told of lost and found connections; nil discards.
	Log *slog.Logger
}

// The timing of a connection, on the wall.
const (
	dialTimeout  = 2 * time.Second
	dialRetry    = 20 * time.Millisecond
	pingInterval = 2 * time.Second
	pingsMissed  = 2
	writeTimeout = 10 * time.Second
	retryFirst   = 20 * time.Millisecond
	retryLast    = 500 * time.Millisecond
)

// Conn is one party's connection to a bus. It is safe for concurrent use.
type Conn struct {
	id      proto.Identity
	nc      *nats.Conn
	note    func(level slog.Level, message string, args ...any)
	inbox   inbox
	changes chan bool
	closed  chan struct{}
	up      atomic.Bool

	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Dial connects, and waits for the first connection until ctx ends. From then on the
// Conn reconnects for ever, with waits of at most half a second; nothing is kept to be
// sent later. It fails at once with [ErrForbidden] when the bus does not know the
// identity's key. Close the Conn when done.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	c := newConn(ctx, cfg)
	options, err := c.options(cfg)
	if err != nil {
		return nil, fmt.Errorf("dial bus as %s: %w", cfg.Identity, err)
	}
	for {
		c.nc, err = nats.Connect(strings.Join(cfg.URLs, ","), options...)
		if err == nil {
			break
		}
		if errors.Is(err, nats.ErrAuthorization) {
			return nil, fmt.Errorf("dial bus as %s: %w: %w", cfg.Identity, ErrForbidden, err)
		}
		if wait := (clock.Clock{}).Sleep(ctx, dialRetry); wait != nil {
			return nil, fmt.Errorf("dial bus as %s: %w: %w", cfg.Identity, wait, err)
		}
	}
	if err := c.listen(); err != nil {
		c.Close()
		return nil, fmt.Errorf("dial bus as %s: %w", cfg.Identity, err)
	}
	return c, nil
}

func newConn(ctx context.Context, cfg Config) *Conn {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx = context.WithoutCancel(ctx)
	c := &Conn{
		id: cfg.Identity,
		note: func(level slog.Level, message string, args ...any) {
			log.Log(ctx, level, message, args...)
		},
		changes: make(chan bool, 1),
		closed:  make(chan struct{}),
		subs:    map[*Subscription]struct{}{},
	}
	c.up.Store(true)
	// Twelve characters keep apart the inboxes of several connections of one identity.
	c.inbox.init(c.id, strings.ToLower(rand.Text()[:12]))
	return c
}

// listen subscribes to the answers and credits of this connection.
func (c *Conn) listen() error {
	sub, err := c.nc.Subscribe(c.inbox.subject(), func(msg *nats.Msg) { c.hear(msg) })
	if err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	// How much can be waiting here is bounded by the credits that were given.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	return nil
}

func (c *Conn) options(cfg Config) ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(string(cfg.Identity)),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsMissed),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(reconnectDelay),
		nats.ReconnectBufSize(-1),
		// A server behind a link would otherwise tell its clients the way around it.
		nats.IgnoreDiscoveredServers(),
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnected() }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.failed(err) }),
	}
	if cfg.InProcess != nil {
		options = append(options, nats.InProcessServer(inProcess(cfg.InProcess)))
	}
	if cfg.Seed != nil {
		pair, err := nkeys.FromSeed(cfg.Seed)
		if err != nil {
			return nil, fmt.Errorf("read seed: %w", err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("read seed: %w", err)
		}
		options = append(options, nats.Nkey(public, pair.Sign))
	}
	return options, nil
}

// inProcess makes a function what nats.go asks for connections without a socket.
type inProcess func() (net.Conn, error)

// InProcessConn opens a connection.
func (open inProcess) InProcessConn() (net.Conn, error) { return open() }

// reconnectDelay is how long to wait after attempts rounds through all URLs.
func reconnectDelay(attempts int) time.Duration {
	return min(retryFirst<<min(max(attempts-1, 0), 8), retryLast)
}

// Identity is who this connection speaks for.
func (c *Conn) Identity() proto.Identity { return c.id }

// Connected reports whether there is a connection now, as far as is known.
func (c *Conn) Connected() bool { return c.up.Load() }

// Changes tells of each lost (false) and remade (true) connection. It holds only the
// latest, and is meant for one reader.
func (c *Conn) Changes() <-chan bool { return c.changes }

// Close disconnects, ends every call and Subscription of the Conn with [ErrClosed],
// and waits for the goroutines of the Conn. It may be called once.
func (c *Conn) Close() {
	c.nc.Close()
	<-c.closed
	c.up.Store(false)
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
// on this Conn before.
func (c *Conn) Flush(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = clock.Clock{}.Timeout(ctx, writeTimeout)
		defer cancel()
	}
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", c.cause(err, 0))
	}
	return nil
}

// send hands one message to the connection's buffer.
func (c *Conn) send(subject, reply string, data []byte) error {
	var err error
	if reply == "" {
		err = c.nc.Publish(subject, data)
	} else {
		err = c.nc.PublishRequest(subject, reply, data)
	}
	if err == nil {
		return nil
	}
	return c.cause(err, len(data))
}

// cause turns an error of nats.go into one of ours.
func (c *Conn) cause(err error, size int) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, nats.ErrBadSubject):
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes, and the bus carries %d", ErrTooLarge, size, c.nc.MaxPayload())
	case errors.Is(err, nats.ErrConnectionClosed):
		return ErrClosed
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return ErrDisconnected
	default:
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
}

// disconnected fails what was waiting for the other side: whether it arrived cannot be
// known any more.
func (c *Conn) disconnected(err error) {
	c.up.Store(false)
	c.inbox.failAll(ErrDisconnected)
	c.note(slog.LevelInfo, "bus connection lost", "identity", c.id, "error", err)
	c.change(false)
}

// reconnected tells every reader that there may be a hole in what it has read.
func (c *Conn) reconnected() {
	c.up.Store(true)
	for _, sub := range c.subscriptions() {
		sub.missed()
	}
	c.note(slog.LevelInfo, "bus connection made again", "identity", c.id)
	c.change(true)
}

// change puts up as the latest change, in place of an older one.
func (c *Conn) change(up bool) {
	select {
	case <-c.changes:
	default:
	}
	select {
	case c.changes <- up:
	default:
	}
}

// failed is told what NATS finds out later than the call that caused it.
func (c *Conn) failed(err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		c.note(slog.LevelDebug, "bus reader has missed messages", "identity", c.id)
	case errors.Is(err, nats.ErrPermissionViolation):
		c.note(slog.LevelWarn, "bus refused a message", "identity", c.id, "error", err)
		c.refused(err)
	default:
		c.note(slog.LevelInfo, "bus connection in trouble", "identity", c.id, "error", err)
	}
}

// refused fails the calls and readers of the subject that NATS names in quotes.
func (c *Conn) refused(err error) {
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	forbidden := fmt.Errorf("%w: %s: %s", ErrForbidden, c.id, subject)
	c.inbox.failRequests(subject, forbidden)
	if strings.Contains(strings.ToLower(err.Error()), "subscription") {
		for _, sub := range c.subscriptions() {
			if sub.subject == subject {
				sub.end(forbidden)
			}
		}
	}
}

func (c *Conn) subscriptions() []*Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	subs := make([]*Subscription, 0, len(c.subs))
	for sub := range c.subs {
		subs = append(subs, sub)
	}
	return subs
}
