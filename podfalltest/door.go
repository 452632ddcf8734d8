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
type door struct {
	address net.Addr
	// port is nil if only dial can connect.
	port      net.Listener
	accepting sync.WaitGroup

	mu    sync.Mutex
	home  *home // current is the listener of the running gateway; nil if there is none.
	conns map[net.Conn]struct{}
}

// acceptRetry is how long in wall time to wait after a failed accept, for example because the
// process is out of files.
const afterRefusal = 5 * time.Millisecond

// listenLoopback listens on a free loopback port.
func openPort(ctx context.Context) (*door, error) {
	ctx = context.WithoutCancel(ctx)
	var from net.ListenConfig
	port, err := from.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{port: port, address: port.Addr(), conns: map[net.Conn]struct{}{}}
	d.accepting.Go(func() {
		for {
			conn, err := port.Accept()
			switch {
			case err == nil:
				d.admit(conn)
			case errors.Is(err, net.ErrClosed), clock.Clock{}.Sleep(ctx, afterRefusal) != nil:
				return
			}
		}
	})
	return d, nil
}

// listenPipes returns a stableListener to which only dial can connect.
func openPipes() *door {
	return &door{address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443}, conns: map[net.Conn]struct{}{}}
}

// dial connects a client in this process.
func (d *door) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	d.admit(far)
	return near, nil
}

// Addr returns the gateway's address, even if it is down.
func (d *door) Addr() net.Addr { return d.address }

// admit passes a connection to the gateway, or closes it if there is none.
func (d *door) admit(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.home == nil {
		_ = conn.Close()
		return
	}
	select {
	case d.home.queue <- counted{conn, d}:
		d.conns[conn] = struct{}{}
	default: // as a listener whose backlog is full
		_ = conn.Close()
	}
}

// newListener returns the listener for a starting gateway.
func (d *door) open() (net.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const backlog = 1024
	d.home = &home{door: d, queue: make(chan net.Conn, backlog), closed: make(chan struct{})}
	return d.home, nil
}

// disconnect closes all connections, so that the gateway and its clients hear no more from each
// other.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.home = nil
	for conn := range d.conns {
		_ = conn.Close()
	}
	clear(d.conns)
}

// close stops listening and waits for the goroutines.
func (d *door) close() {
	d.shut()
	if d.port != nil {
		_ = d.port.Close()
	}
	d.accepting.Wait()
}

func (d *door) forget(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, conn)
}

// trackedConn is a connection that its stableListener tracks until it is closed.
type counted struct {
	net.Conn
	door *door
}

// Close implements net.Conn.
func (c counted) Close() error {
	c.door.forget(c.Conn)
	return c.Conn.Close()
}

// gatewayListener is the listener of one gateway.
type home struct {
	door   *door
	queue  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (h *home) Accept() (net.Conn, error) {
	select {
	case conn := <-h.queue:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *home) Close() error {
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
func (h *home) Addr() net.Addr { return h.door.address }
