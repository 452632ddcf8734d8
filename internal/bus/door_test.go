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

// door is an address that stays while the bus behind it comes and goes. A port that was
// closed may be somebody else's by the time that the bus comes back.
type door struct {
	t        testing.TB
	listener net.Listener
	behind   atomic.Pointer[string] // nil while nobody is there
	carrying sync.WaitGroup
}

func openDoor(t testing.TB) *door {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, listener: listener}
	ctx := context.WithoutCancel(t.Context())
	d.carrying.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			d.carrying.Go(func() { d.carry(ctx, near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		d.carrying.Wait() // whoever came in has left, and the bus has ended
	})
	return d
}

func (d *door) url() string { return "nats://" + d.listener.Addr().String() }

// lead has the door lead to a bus.
func (d *door) lead(to string) {
	d.t.Helper()
	address, err := url.Parse(to)
	if err != nil {
		d.t.Fatal(err)
	}
	d.behind.Store(&address.Host)
}

// shut has it lead nowhere.
func (d *door) shut() { d.behind.Store(nil) }

// carry connects who came in to the bus until either ends.
func (d *door) carry(ctx context.Context, near net.Conn) {
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
