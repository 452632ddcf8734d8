package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Subscription is a bounded queue of the messages on one subject. One goroutine at a time may call
// Next.
type Subscription struct {
	conn    *Conn
	subject string
	queue   chan *nats.Msg
	sub     atomic.Pointer[nats.Subscription] // on the latest connection; nil before
	gap     chan struct{}                     // holds one token after a reconnect
	done    chan struct{}
	once    sync.Once
	err     error // reason for closing done; written before

	// seen and dropped are what Next has noticed.
	seen    *nats.Subscription
	dropped int
}

// Subscribe reads subject, which may hold wildcards, and queues at most limit messages (1 or more).
// If the identity may not read the subject, Next returns the error later. While the Conn is
// disconnected, Subscribe succeeds and takes effect at the reconnect.
func (c *Conn) Subscribe(subject string, limit int) (*Subscription, error) {
	if err := checkSubject(subject); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s := &Subscription{
		conn: c, subject: subject, queue: make(chan *nats.Msg, max(limit, 1)),
		gap: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := s.attach(c.current.Load())
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if c.closed.Load() {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, ErrClosed)
	}
	c.subs[s] = struct{}{}
	return s, nil
}

// attach subscribes on the connection that is or will be current.
func (s *Subscription) attach(to *session) error {
	sub, err := to.nc.ChanSubscribe(s.subject, s.queue)
	if err == nil {
		s.sub.Store(sub)
	}
	return err
}

// Next waits for a message. It returns [ErrMissedMessages] once after messages were dropped because
// the queue was full, or may have been lost in a reconnect. The messages still queued may be from
// before the loss, from after it, or both. It returns [ErrClosed] after Close, and ctx's error when
// ctx ends.
func (s *Subscription) Next(ctx context.Context) ([]byte, error) {
	msg, err := s.next(ctx)
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

func (s *Subscription) next(ctx context.Context) (*nats.Msg, error) {
	select {
	case <-s.done:
		return nil, s.err
	default:
	}
	if s.hasDropped() {
		return nil, ErrMissedMessages
	}
	select {
	case <-s.gap:
		return nil, ErrMissedMessages
	case msg := <-s.queue:
		return msg, nil
	default:
	}
	select {
	case msg := <-s.queue:
		return msg, nil
	case <-s.gap:
		return nil, ErrMissedMessages
	case <-s.done:
		return nil, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hasDropped reports whether messages were dropped since the last call.
func (s *Subscription) hasDropped() bool {
	sub := s.sub.Load()
	if sub != s.seen {
		s.seen, s.dropped = sub, 0
	}
	dropped, err := sub.Dropped()
	if err != nil || dropped == s.dropped {
		return false // the reconnect reports losses of an ended connection
	}
	s.dropped = dropped
	return true
}

// markGap records that messages may have been lost.
func (s *Subscription) markGap() {
	select {
	case s.gap <- struct{}{}:
	default:
	}
}

// Close ends the subscription. Queued messages are lost. It may be called more than once, and while
// another goroutine is in Next.
func (s *Subscription) Close() { s.closeWith(ErrClosed) }

func (s *Subscription) closeWith(why error) {
	s.once.Do(func() {
		s.err = why
		close(s.done)
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		delete(s.conn.subs, s)
		// It fails only if the connection has ended, and the subscription with it.
		_ = s.sub.Load().Unsubscribe()
	})
}
