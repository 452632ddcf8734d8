package bus

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// Subscription is a bounded queue of the messages on one subject. One goroutine at a
// time may call Next.
type Subscription struct {
	conn    *Conn
	subject string
	sub     *nats.Subscription
	queue   chan *nats.Msg
	dropped int           // as of the last Next
	hole    chan struct{} // holds one token after a reconnect
	done    chan struct{}
	ending  sync.Once
	why     error // why done is closed; written before
}

// Subscribe listens to subject, which may hold wildcards, and keeps at most limit
// messages (1 or more) until they are read. What the identity may not read is refused
// later, by Next.
func (c *Conn) Subscribe(subject string, limit int) (*Subscription, error) {
	s := &Subscription{
		conn: c, subject: subject, queue: make(chan *nats.Msg, max(limit, 1)),
		hole: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.mu.Lock()
	c.subs[s] = struct{}{}
	c.mu.Unlock()
	var err error
	if s.sub, err = c.nc.ChanSubscribe(subject, s.queue); err != nil {
		s.end(ErrClosed)
		return nil, fmt.Errorf("subscribe to %s: %w", subject, c.cause(err, 0))
	}
	return s, nil
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
	// On a subscription that has been closed this fails, and the queue says so below.
	if dropped, err := s.sub.Dropped(); err == nil && dropped != s.dropped {
		s.dropped = dropped
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
		delete(s.conn.subs, s)
		s.conn.mu.Unlock()
		if s.sub != nil {
			// It fails only where the connection is closed, and the subscription with it.
			_ = s.sub.Unsubscribe()
		}
	})
}
