package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/podfall/podfall/internal/clock"
)

// The timing of a connection, in wall time.
const (
	dialTimeout    = 2 * time.Second
	sendTimeout    = 5 * time.Second
	pingInterval   = 2 * time.Second
	maxMissedPings = 2
	minRetryDelay  = 10 * time.Millisecond
	maxRetryDelay  = 500 * time.Millisecond
)

// session is one connection from its start to its end. A Conn has one after another. NATS could
// reconnect by itself, but shares timers between all connections of the process, which breaks
// testing/synctest, and does not say which calls belong to the lost connection.
type session struct {
	nc    *nats.Conn
	ended chan struct{} // closed once nc neither delivers nor accepts anything
}

func (s *session) isAlive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return s.nc.IsConnected()
	}
}

// newConnector returns a function that tries once to connect. It logs with ctx.
func (c *Conn) newConnector(ctx context.Context, cfg Config) (func() (*session, error), error) {
	options := []nats.Option{
		nats.Name(string(cfg.Identity)),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxMissedPings),
		nats.FlusherTimeout(sendTimeout),
		nats.ReconnectOnFlusherError(),
		nats.NoReconnect(),
		nats.ReconnectBufSize(-1),
		// A server behind a link would otherwise tell its clients how to bypass the link.
		nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { c.handleAsyncError(ctx, sub, err) }),
	}
	if cfg.InProcess != nil {
		options = append(options, nats.InProcessServer(inProcessDialer(cfg.InProcess)))
	}
	urls := strings.Join(cfg.URLs, ",")
	if cfg.Seed == nil {
		return func() (*session, error) { return connectOnce(urls, options) }, nil
	}
	pair, err := nkeys.FromSeed(cfg.Seed)
	if err != nil {
		return nil, fmt.Errorf("read seed: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read seed: %w", err)
	}
	proven := append(slices.Clip(options), nats.Nkey(public, pair.Sign))
	return func() (*session, error) {
		s, err := connectOnce(urls, proven)
		if errors.Is(err, nats.ErrNkeysNotSupported) {
			// Such a server does not check keys.
			if s, err = connectOnce(urls, options); err == nil {
				c.log.WarnContext(ctx, "bus has no authentication: every client that reaches it can use any identity",
					"identity", c.id)
			}
		}
		return s, err
	}, nil
}

// connectOnce tries once to connect.
func connectOnce(urls string, options []nats.Option) (*session, error) {
	s := &session{ended: make(chan struct{})}
	own := append(slices.Clip(options), nats.ClosedHandler(func(*nats.Conn) { close(s.ended) }))
	var err error
	s.nc, err = nats.Connect(urls, own...)
	return s, err
}

// inProcessDialer adapts a function to the interface that nats.go uses for connections without a
// socket.
type inProcessDialer func() (net.Conn, error)

// InProcessConn opens a connection.
func (open inProcessDialer) InProcessConn() (net.Conn, error) { return open() }

// maintain replaces each connection that ends by a new one, until ctx ends.
func (c *Conn) maintain(ctx context.Context) error {
	for {
		s := c.current.Load()
		select {
		case <-ctx.Done():
			s.nc.Close()
			<-s.ended
			return nil
		case broken := <-c.broken:
			broken.nc.Close()
			<-broken.ended
			continue
		case <-s.ended:
		}
		// It is unknown whether pending requests have arrived.
		c.inbox.failAll(ErrDisconnected)
		c.log.InfoContext(ctx, "bus connection lost", "identity", c.id, "error", s.nc.LastError())
		c.publishChange(false)
		if err := c.reconnect(ctx, func(error) error { return nil }); err != nil {
			return fmt.Errorf("connect again: %w", err) // the end of ctx
		}
		c.log.InfoContext(ctx, "bus connection made again", "identity", c.id)
		c.publishChange(true)
	}
}

// reconnect tries until it has a connection with all subscriptions, ctx ends, or hopeless returns
// an error.
func (c *Conn) reconnect(ctx context.Context, hopeless func(error) error) error {
	for wait := minRetryDelay; ; wait = min(2*wait, maxRetryDelay) {
		s, err := c.connect()
		if err == nil {
			if err = c.activate(ctx, s); err == nil {
				return nil
			}
			s.nc.Close()
			<-s.ended
		}
		if verdict := hopeless(err); verdict != nil {
			return verdict
		}
		if end := (clock.Clock{}).Sleep(ctx, wait); end != nil {
			return fmt.Errorf("%w: %w", end, err)
		}
	}
}

// activate makes s the current connection. Messages sent on it from now on follow its
// subscriptions.
func (c *Conn) activate(ctx context.Context, s *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers, err := s.nc.Subscribe(c.inbox.subject(), func(msg *nats.Msg) { c.handleReply(ctx, msg) })
	if err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	// Credits bound how many messages can be pending here.
	if err := answers.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	for sub := range c.subs {
		if err := sub.attach(s); err != nil {
			return fmt.Errorf("subscribe to %s: %w", sub.subject, err)
		}
		sub.markGap() // messages sent in between are lost
	}
	c.current.Store(s)
	return nil
}

// publishChange replaces the pending change, if any, by up.
func (c *Conn) publishChange(up bool) {
	select {
	case <-c.changes:
	default:
	}
	select {
	case c.changes <- up:
	default:
	}
}
