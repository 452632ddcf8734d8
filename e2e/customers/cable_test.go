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

// cable is how a customer's program reaches the cluster: something that can be pulled out.
type cable struct {
	mu     sync.Mutex
	pulled bool
	conns  map[*wire]bool
	dials  int
}

// wire is one connection.
type wire struct {
	net.Conn
	cable  *cable
	broken atomic.Bool
}

var errPulled = errors.New("the cable is pulled out")

// brokenError is what is read from a connection that was broken. To an informer it is the
// end of a stream, or, of a request that was under way, a connection refused: for both it
// goes on where it was, as it does with a server that restarts. Any other error would
// make it list again, and then it may leave out what happened in between.
type brokenError struct{}

// Error implements error, in the words by which client-go knows the end of a stream.
func (brokenError) Error() string { return "connection reset by peer" }

// Unwrap implements what errors.As looks for.
func (brokenError) Unwrap() error { return syscall.ECONNREFUSED }

func (c *cable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulled {
		return nil, errPulled
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, cable: c}
	if c.conns == nil {
		c.conns = make(map[*wire]bool)
	}
	c.conns[w] = true
	c.dials++
	return w, nil
}

// Read implements [net.Conn].
func (w *wire) Read(data []byte) (int, error) {
	n, err := w.Conn.Read(data)
	return n, w.blame(err)
}

// Write implements [net.Conn].
func (w *wire) Write(data []byte) (int, error) {
	n, err := w.Conn.Write(data)
	return n, w.blame(err)
}

// blame says whose doing an error is.
func (w *wire) blame(err error) error {
	if err != nil && w.broken.Load() {
		return brokenError{}
	}
	return err
}

// Close implements [net.Conn].
func (w *wire) Close() error {
	w.cable.mu.Lock()
	defer w.cable.mu.Unlock()
	delete(w.cable.conns, w)
	return w.Conn.Close()
}

// jerk breaks every connection there is; new ones can be made at once.
func (c *cable) jerk() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.conns {
		w.broken.Store(true)
		_ = w.Conn.Close() // whoever uses it finds out
	}
}

// pull breaks every connection, and lets none be made until plug.
func (c *cable) pull() {
	c.mu.Lock()
	c.pulled = true
	c.mu.Unlock()
	c.jerk()
}

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = false
}

// dialled is how many connections there have been.
func (c *cable) dialled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// through is a client over the cable, without a limit of its own to the rate of requests.
func (c *cable) through(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Dial = c.dial
	return kubernetes.NewForConfig(config)
}
