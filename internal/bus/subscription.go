package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Subscription is a bounded queue of the messages on one subject. One goroutine at a
// time may call Next.
type Subscription struct {
	conn    *Conn
	subject string
	queue   chan *nats.Msg
	sub     atomic.Pointer[nats.Subscription] // of the latest connection; nil before
	hole    chan struct{}                     // holds one token after a reconnect
	done    chan struct{}
	ending  sync.Once
	why     error // why done is closed; written before

	// What Next has seen.
	seen    *nats.Subscription
	dropped int
}

// Subscribe listens to subject, which may hold wildcards, and keeps at most limit
// messages (1 or more) until they are read. What the identity may not read is refused
// later, by Next. While the Conn is disconnected it succeeds, and listens from the
// reconnect on.
func (c *Conn) Subscribe(subject string, limit int) (*Subscription, error) {
	if err := checkSubject(subject); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s := &Subscription{
		conn: c, subject: subject, queue: make(chan *nats.Msg, max(limit, 1)),
		hole: make(chan struct{}, 1), done: make(chan struct{}),
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

// attach listens on the connection that is or will be current.
func (s *Subscription) attach(to *session) error {
	sub, err := to.nc.ChanSubscribe(s.subject, s.queue)
	if err == nil {
		s.sub.Store(sub)
	}
	return err
}

// Next waits for a message. It returns [ErrBehind] once after messages were dropped
// because the queue was full, or may have been because the connection was made again;
// the messages that are still queued may be from before the loss, from after it, or
// both. It returns [ErrClosed] after Close, and ctx's error when ctx ends.
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
		return nil, s.why
	default:
	}
	if s.lost() {
		return nil, ErrBehind
	}
	select {
	case <-s.hole:
		return nil, ErrBehind
	case msg := <-s.queue:
		return msg, nil
	default:
	}
	select {
	case msg := <-s.queue:
		return msg, nil
	case <-s.hole:
		return nil, ErrBehind
	case <-s.done:
		return nil, s.why
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lost reports whether messages were dropped since it was last called.
func (s *Subscription) lost() bool {
	sub := s.sub.Load()
	if sub != s.seen {
		s.seen, s.dropped = sub, 0
	}
	dropped, err := sub.Dropped()
	if err != nil || dropped == s.dropped {
		return false // what a connection that has ended dropped is told by the reconnect
	}
	s.dropped = dropped
	return true
}

// missed notes that messages may have been lost.
func (s *Subscription) missed() {
	select {
	case s.hole <- struct{}{}:
	default:
	}
}

// Close stops listening. Messages that are still queued are lost. It may be called
// more than once, and while another goroutine is in Next.
func (s *Subscription) Close() { s.end(ErrClosed) }

func (s *Subscription) end(why error) {
	s.ending.Do(func() {
		s.why = why
		close(s.done)
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		delete(s.conn.subs, s)
		// It fails only where the connection has ended, and the subscription with it.
		_ = s.sub.Load().Unsubscribe()
	})
}
