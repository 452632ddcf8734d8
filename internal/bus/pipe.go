package bus

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// A pipe is a call in which both sides send messages at any time. Each side receives in its
// own inbox, and names that inbox as the reply subject of its messages:
//
//	requester                                     responder
//	    | --- request, reply=r.me.you.c1.7 ---------> |
//	    | <-- "b", reply=r.you.me.c2.3 -------------- |   accepted
//	    | --- "m…" to r.you.me.c2.3 ----------------> |
//	    | <-- "c8" ---------------------------------- |   eight messages were consumed
//	    | <-- "m…" ---------------------------------- |
//	    | <-- "e" ----------------------------------- |   the end
//
// Both sides send heartbeats, so that each notices the end of the other. The bus itself answers
// a heartbeat to a connection that no longer exists. A connection whose pipe has ended answers
// "gone".
const (
	pipeMessage   = 'm'
	pipeCredit    = 'c'
	pipeHeartbeat = 'b'
	pipeEnd       = 'e'
)

const (
	// pipeWindow is how many unconsumed messages a side may have sent.
	pipeWindow = 16
	// pipeHeartbeatInterval is how often, in wall time, a side sends a heartbeat.
	pipeHeartbeatInterval = 2 * time.Second
	// pipeTimeout is how long a side waits without any message of the other.
	pipeTimeout = 20 * time.Second
)

// Pipe is one side of a bidirectional call. One goroutine at a time may Send, and one Receive.
// Close it when done; the responder's side is closed when its handler returns.
type Pipe struct {
	conn *Conn
	inboxes
	counters

	queue  chan []byte
	credit chan struct{} // holds one token after new credits
	opened chan struct{} // closed at the first message of the other side
	done   chan struct{} // closed at the end, with err set before
	keeper sync.WaitGroup

	mu       sync.Mutex
	consumed int
	err      error
}

// inboxes are the two inbox subjects of a pipe.
type inboxes struct {
	// number is the receiver's number in this connection's inbox, and local its subject.
	number uint64
	local  string
	// remote is empty until the other side has accepted.
	remote string
	from   string // the sender on local, as a token
	// request is the subject of the opening request; empty for the responder.
	request string
}

// counters count messages.
type counters struct {
	sent, taken int           // each used by the sending and the receiving goroutine alone
	received    atomic.Uint64 // all messages received
}

func newPipe(c *Conn, with proto.Identity, mine, theirs string) *Pipe {
	return &Pipe{
		conn: c, inboxes: inboxes{local: mine, remote: theirs, from: with.Token()},
		// One more than the window, so that a sender that exceeds it is detected.
		queue: make(chan []byte, pipeWindow+1), credit: make(chan struct{}, 1),
		opened: make(chan struct{}), done: make(chan struct{}),
	}
}

// Open calls the identity to on subject to open a pipe, and waits for the acceptance. It fails as
// Request does, and if the answer accepts no pipe. The Pipe does not depend on ctx afterwards.
func (c *Conn) Open(ctx context.Context, to proto.Identity, subject string, data []byte) (*Pipe, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open %s: %w", subject, err)
	}
	var p *Pipe
	number := c.inbox.add(to, func(mine string) receiver {
		p = newPipe(c, to, mine, "")
		p.request = subject
		return p
	})
	p.number = number
	if err := c.send(subject, p.local, data); err != nil {
		c.inbox.remove(number)
		return nil, fmt.Errorf("open %s: %w", subject, err)
	}
	select {
	case <-p.opened:
		p.runHeartbeats(ctx)
		return p, nil
	case <-p.done:
		c.inbox.remove(number)
		return nil, fmt.Errorf("open %s: %w", subject, p.err)
	case <-ctx.Done():
		c.inbox.remove(number) // a late acceptance is answered with "gone"
		return nil, fmt.Errorf("open %s: %w", subject, ctx.Err())
	}
}

// Accept opens a pipe if the requester has asked for one. The handler must send no other answer.
func (call *Call) Accept(ctx context.Context) (*Pipe, error) {
	var p *Pipe
	number := call.conn.inbox.add(call.from, func(mine string) receiver {
		p = newPipe(call.conn, call.from, mine, call.reply)
		return p
	})
	p.number = number
	if err := p.sendFrame(pipeHeartbeat, nil); err != nil {
		call.conn.inbox.remove(number)
		return nil, fmt.Errorf("accept %s: %w", call.Subject, err)
	}
	call.ended, call.pipe = true, p
	p.runHeartbeats(ctx)
	return p, nil
}

// Send sends one message of at most 64 KiB. While the other side has 16 unconsumed messages, Send
// waits until ctx ends or the pipe ends. Then it returns the reason: [ErrPeerGone],
// ErrDisconnected, or io.EOF if the other side closed the pipe. It keeps no reference to data.
func (p *Pipe) Send(ctx context.Context, data []byte) error {
	for {
		open, err := p.canSend()
		if err != nil {
			return err
		}
		if open {
			p.sent++
			return p.sendFrame(pipeMessage, data)
		}
		select {
		case <-p.credit:
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Pipe) canSend() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent-p.consumed < pipeWindow, p.err
}

// Receive waits for a message. If the other side has closed the pipe and all its messages are
// received, it returns io.EOF. If the pipe broke, it returns the same errors as Send.
func (p *Pipe) Receive(ctx context.Context) ([]byte, error) {
	select {
	case data := <-p.queue:
		return p.countReceived(data)
	default:
	}
	select {
	case data := <-p.queue:
		return p.countReceived(data)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
	}
	select {
	case data := <-p.queue:
		return data, nil
	default:
		return nil, p.err
	}
}

// countReceived counts a consumed message and sends a credit twice in a window.
func (p *Pipe) countReceived(data []byte) ([]byte, error) {
	if p.taken++; p.taken%(pipeWindow/2) == 0 {
		_ = p.sendFrame(pipeCredit, strconv.AppendInt(nil, int64(p.taken), 10)) // runHeartbeats notices a broken connection
	}
	return data, nil
}

// Done is closed when the pipe has ended or broken.
func (p *Pipe) Done() <-chan struct{} { return p.done }

// Close ends the pipe. The other side still receives what was sent. It may be called more than
// once, and while other goroutines Send and Receive.
func (p *Pipe) Close() {
	if p.finish(ErrClosed) {
		_ = p.sendFrame(pipeEnd, nil) // if the message is lost, the other side times out
	}
	p.keeper.Wait()
	p.conn.inbox.remove(p.number)
}

func (p *Pipe) sendFrame(kind byte, data []byte) error {
	return p.conn.send(p.remote, p.local, append([]byte{kind}, data...))
}

// runHeartbeats sends heartbeats until the end, and ends the pipe if the other side is silent.
func (p *Pipe) runHeartbeats(ctx context.Context) {
	p.keeper.Go(func() {
		beat := clock.Clock{}.Ticker(pipeHeartbeatInterval)
		defer beat.Stop()
		received, at := p.received.Load(), clock.Clock{}.Now()
		for {
			select {
			case <-p.done:
				return
			case <-beat.C:
			}
			if signs := p.received.Load(); signs != received {
				received, at = signs, clock.Clock{}.Now()
			}
			switch err := p.sendFrame(pipeHeartbeat, nil); {
			case err != nil:
				p.finish(err)
			case clock.Clock{}.Since(at) > pipeTimeout:
				p.conn.log.InfoContext(ctx, "the other side of a pipe is silent", "identity", p.conn.id, "peer", p.from)
				p.finish(fmt.Errorf("%w: silent for %v", ErrPeerGone, pipeTimeout))
			}
		}
	})
}

func (p *Pipe) subjects() (subject, request string) { return p.local, p.request }

// handle is called under the inbox's lock, by one goroutine.
func (p *Pipe) handle(msg *nats.Msg) {
	p.received.Add(1)
	switch {
	case msg.Header != nil && msg.Header.Get("Status") == "503" && len(msg.Data) == 0:
		p.fail(p.deliveryError(ErrNoResponder))
		return
	case msg.Header != nil && msg.Header.Get(abandonedHeader) != "":
		p.fail(p.deliveryError(ErrAbandoned))
		return
	case string(msg.Data) == goneMessage:
		p.fail(ErrPeerGone)
		return
	case len(msg.Data) == 0, p.remote == "" && !p.conn.isCreditSubject(p.from, msg.Reply):
		p.fail(fmt.Errorf("%w: the responder did not open a pipe", ErrAbandoned))
		return
	case p.remote == "":
		p.remote = msg.Reply
		close(p.opened)
	}
	switch msg.Data[0] {
	case pipeMessage:
		select {
		case p.queue <- msg.Data[1:]:
		default:
			p.fail(ErrMissedMessages)
		}
	case pipeCredit:
		if n, err := strconv.Atoi(string(msg.Data[1:])); err == nil {
			p.mu.Lock()
			p.consumed = max(p.consumed, n)
			p.mu.Unlock()
			select {
			case p.credit <- struct{}{}:
			default:
			}
		}
	case pipeEnd:
		p.fail(io.EOF)
	}
}

// deliveryError returns why a message did not arrive: the error before until the pipe is open,
// ErrPeerGone afterwards.
func (p *Pipe) deliveryError(before error) error {
	if p.remote == "" {
		return before
	}
	return ErrPeerGone
}

func (p *Pipe) fail(err error) { p.finish(err) }

// finish ends the pipe on this side. It returns false if the pipe had ended before.
func (p *Pipe) finish(why error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return false
	}
	p.err = why
	close(p.done)
	return true
}
