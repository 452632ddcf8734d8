package podfalltest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// door is the gateway's address, which outlives the gateway: a port that is given back
// while the gateway is down might be another test's by the time it returns. While nobody
// is at home, who knocks is turned away.
type door struct {
	address net.Addr
	// port is nil for a door that only dial finds.
	port      net.Listener
	accepting sync.WaitGroup

	mu    sync.Mutex
	home  *home // nil when nobody is
	conns map[net.Conn]struct{}
}

// afterRefusal is how long to wait, on the wall, when the system has no connection to give:
// it may be out of files.
const afterRefusal = 5 * time.Millisecond

// openPort is a door at a free port of loopback.
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

// openPipes is a door that only dial finds.
func openPipes() *door {
	return &door{address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443}, conns: map[net.Conn]struct{}{}}
}

// dial connects a client of this process.
func (d *door) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	d.admit(far)
	return near, nil
}

// Addr is where the door is, whoever is at home.
func (d *door) Addr() net.Addr { return d.address }

// admit hands a connection to the gateway, or closes it when there is none.
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

// open is the listener of a gateway that starts.
func (d *door) open() (net.Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const backlog = 1024
	d.home = &home{door: d, queue: make(chan net.Conn, backlog), closed: make(chan struct{})}
	return d.home, nil
}

// shut breaks all connections; the gateway hears no more from them, nor they from it.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.home = nil
	for conn := range d.conns {
		_ = conn.Close()
	}
	clear(d.conns)
}

// close ends the door, and waits for its goroutines.
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

// counted is a connection that the door knows of until it is closed.
type counted struct {
	net.Conn
	door *door
}

// Close implements net.Conn.
func (c counted) Close() error {
	c.door.forget(c.Conn)
	return c.Conn.Close()
}

// home is the listener of one gateway.
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
