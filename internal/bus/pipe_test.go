package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// pipes is a bus with a runtime that accepts every pipe, and a kubelet.
type pipes struct {
	answerer, asker *bus.Conn
	accepted        chan *bus.Pipe
	// release lets handlers return.
	release chan struct{}
	stop    func()
}

// dialPair is a bus without a socket, and a runtime and a kubelet on it.
func dialPair(ctx context.Context, t *testing.T) (server *bus.Server, answerer, asker *bus.Conn) {
	t.Helper()
	server, err := bus.StartServer(ctx, bus.ServerConfig{Port: bus.InProcessOnly})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(id proto.Identity) *bus.Conn {
		conn, err := bus.Dial(ctx, bus.Config{Identity: id, InProcess: server.InProcessConn})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	return server, dial(proto.Runtime), dial(proto.Kubelet)
}

func withPipes(t *testing.T, test func(ctx context.Context, t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		server, answerer, asker := dialPair(ctx, t)
		defer server.Close()
		p := &pipes{
			answerer: answerer, asker: asker,
			accepted: make(chan *bus.Pipe, 1), release: make(chan struct{}), stop: stop,
		}
		defer p.answerer.Close()
		defer p.asker.Close()
		served := make(chan error, 1)
		go func() {
			served <- p.answerer.Serve(ctx, "cri.Talk", func(ctx context.Context, call *bus.Call) {
				pipe, err := call.Accept(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				p.accepted <- pipe
				<-p.release
			})
		}()
		synctest.Wait()
		test(ctx, t, p)
		close(p.release)
		stop()
		if err := <-served; err != nil && !errors.Is(err, bus.ErrClosed) {
			t.Error(err)
		}
	})
}

func (p *pipes) open(ctx context.Context, t *testing.T) (ours, theirs *bus.Pipe) {
	t.Helper()
	ours, err := p.asker.Open(ctx, proto.Runtime, "cri.Talk", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	return ours, <-p.accepted
}

// Messages go both ways, in order, however many there are; the end comes after them.
func TestPipeBothWays(t *testing.T) {
	withPipes(t, func(ctx context.Context, t *testing.T, p *pipes) {
		ours, theirs := p.open(ctx, t)
		const many = 1000
		send := func(from *bus.Pipe) {
			for i := range many {
				if err := from.Send(ctx, fmt.Append(nil, i)); err != nil {
					t.Error(err)
					return
				}
			}
		}
		receive := func(at *bus.Pipe) {
			for i := range many {
				if got, err := at.Receive(ctx); err != nil || string(got) != fmt.Sprint(i) {
					t.Errorf("message %d: %q, %v", i, got, err)
					return
				}
			}
		}
		ended := make(chan struct{})
		go func() { send(ours); ended <- struct{}{} }()
		go func() { receive(ours); ended <- struct{}{} }()
		go func() { receive(theirs); ended <- struct{}{} }()
		send(theirs)
		for range 3 {
			<-ended
		}
		if err := theirs.Send(ctx, []byte("last")); err != nil {
			t.Error(err)
		}
		theirs.Close()
		synctest.Wait()
		if got, err := ours.Receive(ctx); err != nil || string(got) != "last" {
			t.Errorf("what was sent before the end: %q, %v", got, err)
		}
		if _, err := ours.Receive(ctx); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v, want %v", err, io.EOF)
		}
		if err := ours.Send(ctx, nil); !errors.Is(err, io.EOF) {
			t.Errorf("Send after the end: %v, want %v", err, io.EOF)
		}
		ours.Close()
	})
}

// A sender waits for a side that does not receive, and loses nothing.
func TestPipeFlowControl(t *testing.T) {
	withPipes(t, func(ctx context.Context, t *testing.T, p *pipes) {
		ours, theirs := p.open(ctx, t)
		defer ours.Close()
		sent := 0
		hurried, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for ours.Send(hurried, []byte("x")) == nil {
			sent++
		}
		if sent != 16 {
			t.Errorf("%d messages were sent to one who receives none, want 16", sent)
		}
		for i := range sent {
			if _, err := theirs.Receive(ctx); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if err := ours.Send(ctx, []byte("x")); err != nil {
			t.Errorf("after it has received: %v", err)
		}
	})
}

// Each side notices the end of the other: that it has closed, that its connection is gone, and
// that it is silent.
func TestPipeEnds(t *testing.T) {
	for name, row := range map[string]struct {
		end    func(p *pipes, theirs *bus.Pipe)
		within time.Duration
		want   error
	}{
		"the other side closes":       {func(_ *pipes, theirs *bus.Pipe) { theirs.Close() }, 0, io.EOF},
		"its handler returns":         {func(p *pipes, _ *bus.Pipe) { p.release <- struct{}{} }, 0, io.EOF},
		"its connection is no more":   {func(p *pipes, _ *bus.Pipe) { p.answerer.Close() }, 5 * time.Second, bus.ErrPeerGone},
		"our own connection is ended": {func(p *pipes, _ *bus.Pipe) { p.asker.Close() }, 0, bus.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			withPipes(t, func(ctx context.Context, t *testing.T, p *pipes) {
				ours, theirs := p.open(ctx, t)
				began := time.Now()
				row.end(p, theirs)
				_, err := ours.Receive(ctx)
				if took := time.Since(began); !errors.Is(err, row.want) || took > row.within {
					t.Errorf("after %v: %v; want %v within %v", took, err, row.want, row.within)
				}
				<-ours.Done()
				if err := ours.Send(ctx, nil); err == nil {
					t.Error("Send succeeds after the end")
				}
				ours.Close()
				p.answerer.Close()
				<-theirs.Done()
			})
		})
	}
}

// A pipe that is idle stays.
func TestPipeStays(t *testing.T) {
	withPipes(t, func(ctx context.Context, t *testing.T, p *pipes) {
		ours, theirs := p.open(ctx, t)
		defer ours.Close()
		time.Sleep(time.Hour)
		if err := theirs.Send(ctx, []byte("still here")); err != nil {
			t.Fatal(err)
		}
		if got, err := ours.Receive(ctx); err != nil || string(got) != "still here" {
			t.Errorf("after an hour: %q, %v", got, err)
		}
	})
}

// Open fails if the responder does not open a pipe.
func TestPipeRefused(t *testing.T) {
	withPipes(t, func(ctx context.Context, t *testing.T, p *pipes) {
		if _, err := p.asker.Open(ctx, proto.Runtime, "cri.Nobody", nil); !errors.Is(err, bus.ErrNoResponder) {
			t.Errorf("nobody serves it: %v", err)
		}
		serving, stop := context.WithCancel(ctx)
		served := make(chan error, 1)
		go func() {
			served <- p.answerer.Serve(serving, "cri.Once", func(ctx context.Context, call *bus.Call) {
				if string(call.Data) == "answer" {
					_ = call.Send(ctx, []byte("once"), false)
				}
			})
		}()
		synctest.Wait()
		for _, data := range []string{"answer", "abandon"} {
			if _, err := p.asker.Open(ctx, proto.Runtime, "cri.Once", []byte(data)); !errors.Is(err, bus.ErrAbandoned) {
				t.Errorf("%s: %v, want %v", data, err, bus.ErrAbandoned)
			}
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
