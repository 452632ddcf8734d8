package oracle_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"testing"
)

// TestMain has the goroutine that hears signals begin outside of all bubbles: it never ends.
func TestMain(m *testing.M) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	os.Exit(m.Run())
}

// pipes is a listener without a socket, whose connections are a bubble's own.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// serve answers requests over pipes until the test ends.
func serve(t *testing.T, handler http.Handler) *pipes {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	web := &http.Server{Handler: handler} //nolint:gosec // it has one client, this test
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(p) })
	t.Cleanup(func() {
		_ = web.Close()
		serving.Wait()
	})
	return p
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.close()
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
