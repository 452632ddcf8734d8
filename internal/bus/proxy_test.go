package bus_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy is an address that stays while the bus behind it restarts. A closed port may belong to
// another process by the time the bus is back.
type proxy struct {
	t        testing.TB
	listener net.Listener
	behind   atomic.Pointer[string] // nil while there is no bus
	carrying sync.WaitGroup
}

func openProxy(t testing.TB) *proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &proxy{t: t, listener: listener}
	ctx := context.WithoutCancel(t.Context())
	d.carrying.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			d.carrying.Go(func() { d.forward(ctx, near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		d.carrying.Wait() // all clients have left, and the bus has ended
	})
	return d
}

func (d *proxy) url() string { return "nats://" + d.listener.Addr().String() }

// connectTo forwards new connections to a bus.
func (d *proxy) connectTo(to string) {
	d.t.Helper()
	address, err := url.Parse(to)
	if err != nil {
		d.t.Fatal(err)
	}
	d.behind.Store(&address.Host)
}

// close refuses new connections.
func (d *proxy) close() { d.behind.Store(nil) }

// forward copies between a connection and the bus until either ends.
func (d *proxy) forward(ctx context.Context, near net.Conn) {
	defer near.Close()
	to := d.behind.Load()
	if to == nil {
		return
	}
	far, err := new(net.Dialer).DialContext(ctx, "tcp", *to)
	if err != nil {
		return
	}
	defer far.Close()
	var back sync.WaitGroup
	defer back.Wait()
	both := func() { _, _ = near.Close(), far.Close() }
	back.Go(func() {
		defer both()
		_, _ = io.Copy(near, far)
	})
	defer both()
	_, _ = io.Copy(far, near)
}
