package shim

import (
	"context"
	"encoding/json"
	"net"
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
