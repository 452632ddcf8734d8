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
	// pipeWindow is how many messages a side may be ahead of what was consumed.
	pipeWindow = 16
	// pipeBeats is how often, on the wall, a side says that it is there.
	pipeBeats = 2 * time.Second
	// pipeSilence is how long a side waits for any sign of the other.
	pipeSilence = 20 * time.Second
)

// Pipe is one side of a conversation. One goroutine at a time may Send, and one Receive.
// Close it; a responder's is closed when its handler returns.
type Pipe struct {
	conn *Conn
	ends
	tally

	queue  chan []byte
	credit chan struct{} // holds one token after news of credits
	opened chan struct{} // closed at the first sign of the other side
	done   chan struct{} // closed at the end, with err set before
	keeper sync.WaitGroup

	mu       sync.Mutex
	consumed int
	err      error
}

// ends are the two inboxes between which a pipe runs.
type ends struct {
	// number is the place in this connection's inbox, and mine the subject there.
	number uint64
	mine   string
	// theirs is empty until the other side has accepted.
	theirs string
	from   string // who speaks on mine, as a token
	// request is what was asked, by a requester.
	request string
}

// tally counts messages.
type tally struct {
	sent, taken int           // of the sender and of the receiver alone
	signs       atomic.Uint64 // whatever was heard
}

func newPipe(c *Conn, with proto.Identity, mine, theirs string) *Pipe {
	return &Pipe{
		conn: c, ends: ends{mine: mine, theirs: theirs, from: with.Token()},
		// One more than there is room for, so that whoever sends too much is noticed.
		queue: make(chan []byte, pipeWindow+1), credit: make(chan struct{}, 1),
		opened: make(chan struct{}), done: make(chan struct{}),
	}
}

// Open asks whoever serves subject as identity to for a conversation, and waits until it
// has accepted. It fails as Request does, and when the answer is one of another kind.
// The Pipe outlives ctx.
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

// Accept makes a conversation of a call whose requester has asked for one. The handler
// sends no other answer.
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

// Send sends one message, at most 64 KiB long. While the other side is 16 messages
// behind it waits, until ctx ends or the conversation has; then it fails with the
// reason: [ErrGone], ErrDisconnected, or io.EOF when the other side has ended it. It
// keeps no reference to data.
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

// Receive waits for a message. When the other side has ended the conversation, and all
// that it had sent before is received, it fails with io.EOF; when it broke, as Send does.
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

// took counts a message, and says so twice in a window.
func (p *Pipe) took(data []byte) ([]byte, error) {
	if p.taken++; p.taken%(pipeWindow/2) == 0 {
		_ = p.say(pipeCredit, strconv.AppendInt(nil, int64(p.taken), 10)) // what breaks is noticed by the beats
	}
	return data, nil
}

// Done is closed when the conversation has ended, by whichever side, or is broken.
func (p *Pipe) Done() <-chan struct{} { return p.done }

// Close ends the conversation; the other side still receives what was sent. It may be
// called more than once, and while other goroutines Send and Receive.
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

// keep beats until the end, and ends the conversation when the other side is silent.
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

// hear is called under the inbox's lock, by one goroutine.
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

// lost is why a message of ours did not arrive: before the conversation has begun there
// was nobody, afterwards somebody is gone.
func (p *Pipe) lost(before error) error {
	if p.theirs == "" {
		return before
	}
	return ErrGone
}

func (p *Pipe) fail(err error) { p.end(err) }

// end ends the conversation on this side; false when it has ended before.
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
