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

// A pipe is a call in which both sides say what they like, when they like. Each hears
// what the other publishes to its inbox, and names its own there as the reply subject:
//
//	requester                                     responder
//	    | --- request, reply=r.me.you.c1.7 ---------> |
//	    | <-- "b", reply=r.you.me.c2.3 -------------- |   accepted
//	    | --- "m…" to r.you.me.c2.3 ----------------> |
//	    | <-- "c8" ---------------------------------- |   eight messages were consumed
//	    | <-- "m…" ---------------------------------- |
//	    | <-- "e" ----------------------------------- |   the end
//
// Both send beats, so that each learns of the other's death: the bus answers a beat to a
// connection that is no more, and a connection whose pipe has ended says "gone".
const (
	pipeMessage = 'm'
	pipeCredit  = 'c'
	pipeBeat    = 'b'
	pipeEnd     = 'e'
)

const (
	// pipeWindow is how many unconsumed messages a side may have sent.
	pipeWindow = 16
	// pipeHeartbeatInterval is how often, in wall time, a side sends a heartbeat.
	pipeBeats = 2 * time.Second
	// pipeTimeout is how long a side waits without any message of the other.
	pipeSilence = 20 * time.Second
)

// Pipe is one side of a bidirectional call. One goroutine at a time may Send, and one Receive.
// Close it when done; the responder's side is closed when its handler returns.
type Pipe struct {
	conn *Conn
	ends
	tally

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
type ends struct {
	// number is the receiver's number in this connection's inbox, and local its subject.
	number uint64
	mine   string
	// remote is empty until the other side has accepted.
	theirs string
	from   string // the sender on local, as a token
	// request is the subject of the opening request; empty for the responder.
	request string
}

// counters count messages.
type tally struct {
	sent, taken int           // each used by the sending and the receiving goroutine alone
	signs       atomic.Uint64 // all messages received
}

func newPipe(c *Conn, with proto.Identity, mine, theirs string) *Pipe {
	return &Pipe{
		conn: c, ends: ends{mine: mine, theirs: theirs, from: with.Token()},
		// One more than there is room for, so that whoever sends too much is noticed.
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
	number := c.inbox.add(to, func(mine string) ear {
		p = newPipe(c, to, mine, "")
		p.request = subject
		return p
	})
	p.number = number
	if err := c.send(subject, p.mine, data); err != nil {
		c.inbox.remove(number)
		return nil, fmt.Errorf("open %s: %w", subject, err)
	}
	select {
	case <-p.opened:
		p.keep(ctx)
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
	number := call.conn.inbox.add(call.from, func(mine string) ear {
		p = newPipe(call.conn, call.from, mine, call.reply)
		return p
	})
	p.number = number
	if err := p.say(pipeBeat, nil); err != nil {
		call.conn.inbox.remove(number)
		return nil, fmt.Errorf("accept %s: %w", call.Subject, err)
	}
	call.ended, call.pipe = true, p
	p.keep(ctx)
	return p, nil
}

// Send sends one message of at most 64 KiB. While the other side has 16 unconsumed messages, Send
// waits until ctx ends or the pipe ends. Then it returns the reason: [ErrPeerGone],
// ErrDisconnected, or io.EOF if the other side closed the pipe. It keeps no reference to data.
func (p *Pipe) Send(ctx context.Context, data []byte) error {
	for {
		open, err := p.open()
		if err != nil {
			return err
		}
		if open {
			p.sent++
			return p.say(pipeMessage, data)
		}
		select {
		case <-p.credit:
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Pipe) open() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent-p.consumed < pipeWindow, p.err
}

// Receive waits for a message. If the other side has closed the pipe and all its messages are
// received, it returns io.EOF. If the pipe broke, it returns the same errors as Send.
func (p *Pipe) Receive(ctx context.Context) ([]byte, error) {
	select {
	case data := <-p.queue:
		return p.took(data)
	default:
	}
	select {
	case data := <-p.queue:
		return p.took(data)
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
func (p *Pipe) took(data []byte) ([]byte, error) {
	if p.taken++; p.taken%(pipeWindow/2) == 0 {
		_ = p.say(pipeCredit, strconv.AppendInt(nil, int64(p.taken), 10)) // what breaks is noticed by the beats
	}
	return data, nil
}

// Done is closed when the pipe has ended or broken.
func (p *Pipe) Done() <-chan struct{} { return p.done }

// Close ends the pipe. The other side still receives what was sent. It may be called more than
// once, and while other goroutines Send and Receive.
func (p *Pipe) Close() {
	if p.end(ErrClosed) {
		_ = p.say(pipeEnd, nil) // if it does not arrive, the other side notices the silence
	}
	p.keeper.Wait()
	p.conn.inbox.remove(p.number)
}

func (p *Pipe) say(what byte, data []byte) error {
	return p.conn.send(p.theirs, p.mine, append([]byte{what}, data...))
}

// runHeartbeats sends heartbeats until the end, and ends the pipe if the other side is silent.
func (p *Pipe) keep(ctx context.Context) {
	p.keeper.Go(func() {
		beat := clock.Clock{}.Ticker(pipeBeats)
		defer beat.Stop()
		heard, at := p.signs.Load(), clock.Clock{}.Now()
		for {
			select {
			case <-p.done:
				return
			case <-beat.C:
			}
			if signs := p.signs.Load(); signs != heard {
				heard, at = signs, clock.Clock{}.Now()
			}
			switch err := p.say(pipeBeat, nil); {
			case err != nil:
				p.end(err)
			case clock.Clock{}.Since(at) > pipeSilence:
				p.conn.log.InfoContext(ctx, "the other side of a pipe is silent", "identity", p.conn.id, "peer", p.from)
				p.end(fmt.Errorf("%w: silent for %v", ErrGone, pipeSilence))
			}
		}
	})
}

func (p *Pipe) expects() (subject, request string) { return p.mine, p.request }

// handle is called under the inbox's lock, by one goroutine.
func (p *Pipe) hear(msg *nats.Msg) {
	p.signs.Add(1)
	switch {
	case msg.Header != nil && msg.Header.Get("Status") == "503" && len(msg.Data) == 0:
		p.fail(p.lost(ErrNoResponder))
		return
	case msg.Header != nil && msg.Header.Get(headerEnd) != "":
		p.fail(p.lost(ErrAbandoned))
		return
	case string(msg.Data) == gone:
		p.fail(ErrGone)
		return
	case len(msg.Data) == 0, p.theirs == "" && !p.conn.mayCredit(p.from, msg.Reply):
		p.fail(fmt.Errorf("%w: no conversation was offered", ErrAbandoned))
		return
	case p.theirs == "":
		p.theirs = msg.Reply
		close(p.opened)
	}
	switch msg.Data[0] {
	case pipeMessage:
		select {
		case p.queue <- msg.Data[1:]:
		default:
			p.fail(ErrBehind)
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
func (p *Pipe) lost(before error) error {
	if p.theirs == "" {
		return before
	}
	return ErrGone
}

func (p *Pipe) fail(err error) { p.end(err) }

// finish ends the pipe on this side. It returns false if the pipe had ended before.
func (p *Pipe) end(why error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return false
	}
	p.err = why
	close(p.done)
	return true
}
