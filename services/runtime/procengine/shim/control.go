package shim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
)

// patience is how long a runtime may take to take in one message.
const patience = 5 * time.Second

// request is something asked on the control socket.
type request struct {
	message

	// expired is set instead of a message: its timeout has passed.
	expired *command
	// do is set instead of a message: something to be done in the shim's goroutine.
	do func()
	// answer sends the answer to whoever asked.
	answer func(message)
}

// peer is a runtime that is connected.
type peer struct {
	mu   sync.Mutex
	conn net.Conn
	out  *json.Encoder
}

// send writes one message. A peer that takes none in is cut off.
func (p *peer) send(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.conn.SetWriteDeadline(clock.Clock{}.Now().Add(patience))
	if p.out.Encode(m) != nil {
		_ = p.conn.Close()
	}
}

// frame says something in a conversation, and waits until the client takes it in; once its
// time is over, no longer.
func (p *peer) frame(frame []byte) error {
	text, err := json.Marshal(message{Frame: frame})
	if err != nil {
		return err
	}
	text = append(text, '\n')
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.conn.Write(text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = push(p.conn, text[n:])
	}
	return err
}

// serve takes connections until ctx ends or the listener is closed, and waits for all.
func (s *shim) serve(ctx context.Context, listener net.Listener) {
	group := daemon.NewGroup(ctx)
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		group.Go(func(ctx context.Context) error {
			s.attend(ctx, conn)
			return nil
		})
	}
	group.Stop()
	_ = group.Wait()
}

// attend passes on what one peer asks, until it goes or ctx ends.
func (s *shim) attend(ctx context.Context, conn net.Conn) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	p := &peer{conn: conn, out: json.NewEncoder(conn)}
	s.peers.join(p)
	defer s.peers.leave(p)
	in := json.NewDecoder(conn)
	for {
		var m message
		if in.Decode(&m) != nil {
			return
		}
		if m.Stream != nil {
			s.converse(ctx, p, in, *m.Stream)
			return
		}
		asked := request{message: m, answer: func(answer message) {
			answer.ID = m.ID
			p.send(answer)
		}}
		select {
		case s.requests <- asked:
		case <-ctx.Done():
			return
		}
	}
}

// audience are the peers, and what they know.
type audience struct {
	mu    sync.Mutex
	conns map[*peer]struct{}
	told  *Status
	// talking are those in a conversation: they are told nothing else, so that nobody waits
	// for them, however slowly they read.
	talking map[*peer]struct{}
	// last is when they are to have heard everything, once the program has ended.
	last time.Time
}

// talk makes a peer one that is in a conversation.
func (a *audience) talk(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, p)
	a.talking[p] = struct{}{}
	_ = p.conn.SetWriteDeadline(a.last)
}

// hurry gives everyone who is in a conversation a moment to hear its end.
func (a *audience) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = clock.Clock{}.Now().Add(farewell)
	for p := range a.talking {
		_ = p.conn.SetWriteDeadline(a.last)
	}
}

// join tells a new peer the status, and lets it hear of each change.
func (a *audience) join(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[p] = struct{}{}
	if a.told != nil {
		p.send(message{Status: a.told})
	}
}

func (a *audience) leave(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, p)
	delete(a.talking, p)
	_ = p.conn.Close()
}

// tell tells every peer a new status.
func (a *audience) tell(status Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = &status
	for p := range a.conns {
		p.send(message{Status: &status})
	}
}
