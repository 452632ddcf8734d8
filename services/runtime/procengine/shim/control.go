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

// writeTimeout bounds how long a peer may take to receive one message.
const writeTimeout = 5 * time.Second

// request is a request from the control socket or from another goroutine of the shim.
type request struct {
	message

	// expired is a command with a passed timeout; then there is no message.
	expired *command
	// do is a function to run in the shim's goroutine; then there is no message.
	do func()
	// answer sends the answer to the peer.
	answer func(message)
}

// peer is a connected runtime.
type peer struct {
	mu   sync.Mutex
	conn net.Conn
	out  *json.Encoder
}

// send writes one message. A peer that does not receive it in time is disconnected.
func (p *peer) send(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.conn.SetWriteDeadline(clock.Clock{}.Now().Add(writeTimeout))
	if p.out.Encode(m) != nil {
		_ = p.conn.Close()
	}
}

// sendFrame sends a frame of a conversation and waits until the client receives it. After the write
// deadline it sends only what the connection takes at once.
func (p *peer) sendFrame(frame []byte) error {
	text, err := json.Marshal(message{Frame: frame})
	if err != nil {
		return err
	}
	text = append(text, '\n')
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.conn.Write(text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = writeNow(p.conn, text[n:])
	}
	return err
}

// serve accepts connections until ctx ends or the listener is closed, and waits for all of them.
func (s *shim) serve(ctx context.Context, listener net.Listener) {
	group := daemon.NewGroup(ctx)
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		group.Go(func(ctx context.Context) error {
			s.servePeer(ctx, conn)
			return nil
		})
	}
	group.Stop()
	_ = group.Wait()
}

// servePeer handles one peer's requests until it disconnects or ctx ends.
func (s *shim) servePeer(ctx context.Context, conn net.Conn) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	p := &peer{conn: conn, out: json.NewEncoder(conn)}
	s.peers.add(p)
	defer s.peers.remove(p)
	in := json.NewDecoder(conn)
	for {
		var m message
		if in.Decode(&m) != nil {
			return
		}
		if m.Stream != nil {
			s.serveConversation(ctx, p, in, *m.Stream)
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

// peerSet holds the connected peers and the last status sent to them.
type peerSet struct {
	mu         sync.Mutex
	conns      map[*peer]struct{}
	lastStatus *Status
	// conversing holds the peers in a conversation. They get no statuses, so a slow reader delays
	// no one else.
	conversing map[*peer]struct{}
	// deadline ends all conversations once the program has ended.
	deadline time.Time
}

// startConversation marks a peer as being in a conversation.
func (a *peerSet) startConversation(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, p)
	a.conversing[p] = struct{}{}
	_ = p.conn.SetWriteDeadline(a.deadline)
}

// limitConversations gives every conversation a short time to finish.
func (a *peerSet) limitConversations() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = clock.Clock{}.Now().Add(farewellTimeout)
	for p := range a.conversing {
		_ = p.conn.SetWriteDeadline(a.deadline)
	}
}

// add sends a new peer the current status and subscribes it to changes.
func (a *peerSet) add(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[p] = struct{}{}
	if a.lastStatus != nil {
		p.send(message{Status: a.lastStatus})
	}
}

func (a *peerSet) remove(p *peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, p)
	delete(a.conversing, p)
	_ = p.conn.Close()
}

// broadcast sends a new status to every peer.
func (a *peerSet) broadcast(status Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastStatus = &status
	for p := range a.conns {
		p.send(message{Status: &status})
	}
}
