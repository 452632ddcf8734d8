package podfalltest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// stableListener keeps the gateway's address while the gateway is down. If the port were freed,
// another test might take it meanwhile. Without a gateway, connections are refused.
type stableListener struct {
	address net.Addr
	// port is nil if only dial can connect.
	port      net.Listener
	accepting sync.WaitGroup

	mu      sync.Mutex
	current *gatewayListener // current is the listener of the running gateway; nil if there is none.
	conns   map[net.Conn]struct{}
}

// acceptRetry is how long in wall time to wait after a failed accept, for example because the
// process is out of files.
const acceptRetry = 5 * time.Millisecond

// listenLoopback listens on a free loopback port.
func listenLoopback(ctx context.Context) (*stableListener, error) {
	ctx = context.WithoutCancel(ctx)
	var from net.ListenConfig
	port, err := from.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &stableListener{port: port, address: port.Addr(), conns: map[net.Conn]struct{}{}}
	d.accepting.Go(func() {
		for {
			conn, err := port.Accept()
			switch {
			case err == nil:
				d.admit(conn)
			case errors.Is(err, net.ErrClosed), clock.Clock{}.Sleep(ctx, acceptRetry) != nil:
				return
			}
		}
	})
	return d, nil
}

// listenPipes returns a stableListener to which only dial can connect.
func listenPipes() *stableListener {
	return &stableListener{address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443}, conns: map[net.Conn]struct{}{}}
}

// dial connects a client in this process.
func (d *stableListener) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	d.admit(far)
	return near, nil
}

// Addr returns the gateway's address, even if it is down.
func (d *stableListener) Addr() net.Addr { return d.address }

// admit passes a connection to the gateway, or closes it if there is none.
func (d *stableListener) admit(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil {
		_ = conn.Close()
		return
	}
	select {
	case d.current.queue <- trackedConn{conn, d}:
		d.conns[conn] = struct{}{}
	default: // like a listener with a full backlog
		_ = conn.Close()
	}
}

// newListener returns the listener for a starting gateway.
func (d *stableListener) newListener() (net.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const backlog = 1024
	d.current = &gatewayListener{parent: d, queue: make(chan net.Conn, backlog), closed: make(chan struct{})}
	return d.current, nil
}

// disconnect closes all connections, so that the gateway and its clients hear no more from each
// other.
func (d *stableListener) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current = nil
	for conn := range d.conns {
		_ = conn.Close()
	}
	clear(d.conns)
}

// close stops listening and waits for the goroutines.
func (d *stableListener) close() {
	d.disconnect()
	if d.port != nil {
		_ = d.port.Close()
	}
	d.accepting.Wait()
}

func (d *stableListener) forget(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, conn)
}

// trackedConn is a connection that its stableListener tracks until it is closed.
type trackedConn struct {
	net.Conn
	listener *stableListener
}

// Close implements net.Conn.
func (c trackedConn) Close() error {
	c.listener.forget(c.Conn)
	return c.Conn.Close()
}

// gatewayListener is the listener of one gateway.
type gatewayListener struct {
	parent *stableListener
	queue  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (h *gatewayListener) Accept() (net.Conn, error) {
	select {
	case conn := <-h.queue:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *gatewayListener) Close() error {
	h.once.Do(func() { close(h.closed) })
	for {
		select {
		case conn := <-h.queue:
			_ = conn.Close()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (h *gatewayListener) Addr() net.Addr { return h.parent.address }
