package customers

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// flakyDialer connects a customer's program to the cluster. Its connections can be broken.
type flakyDialer struct {
	mu    sync.Mutex
	down  bool
	conns map[*flakyConn]bool
	dials int
}

// flakyConn is one connection.
type flakyConn struct {
	net.Conn
	dialer *flakyDialer
	broken atomic.Bool
}

var errDown = errors.New("the cable is pulled out")

// brokenError is the read error of a broken connection. An informer takes it for the end of a
// stream or, for a request under way, a refused connection. In both cases it resumes, as with a
// restarted server. After any other error it would list again, and could then skip changes in
// between.
type brokenError struct{}

// Error implements error, with the text by which client-go recognizes the end of a stream.
func (brokenError) Error() string { return "connection reset by peer" }

// Unwrap returns the error for errors.As.
func (brokenError) Unwrap() error { return syscall.ECONNREFUSED }

func (c *flakyDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return nil, errDown
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &flakyConn{Conn: conn, dialer: c}
	if c.conns == nil {
		c.conns = make(map[*flakyConn]bool)
	}
	c.conns[w] = true
	c.dials++
	return w, nil
}

// Read implements [net.Conn].
func (w *flakyConn) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	return n, w.mapError(err)
}

// Write implements [net.Conn].
func (w *flakyConn) Write(data []byte) (int, error) {
	n, err := w.Conn.Write(data)
	return n, w.mapError(err)
}

// mapError returns a brokenError if the connection was broken on purpose.
func (w *flakyConn) mapError(err error) error {
	if err != nil && w.broken.Load() {
		return brokenError{}
	}
	return err
}

// Close implements [net.Conn].
func (w *flakyConn) Close() error {
	w.dialer.mu.Lock()
	defer w.dialer.mu.Unlock()
	delete(w.dialer.conns, w)
	return w.Conn.Close()
}

// breakAll breaks all connections; new ones can be made at once.
func (c *flakyDialer) breakAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.conns {
		w.broken.Store(true)
		_ = w.Conn.Close() // its user gets an error
	}
}

// disconnect breaks all connections, and refuses new ones until reconnect.
func (c *flakyDialer) disconnect() {
	c.mu.Lock()
	c.down = true
	c.mu.Unlock()
	c.breakAll()
}

func (c *flakyDialer) reconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}

// countDials returns how many connections there have been.
func (c *flakyDialer) countDials() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// newClient returns a client with this dialer and no rate limit of its own.
func (c *flakyDialer) newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Dial = c.dial
	return kubernetes.NewForConfig(config)
}
