package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// conformance is what every kind of bus must do.
var conformance = map[string]func(t *testing.T, s *harness){
	"a request is answered":                     testAnswer,
	"requests run beside each other":            testConcurrentCalls,
	"nobody serves":                             testNoResponder,
	"an answer in parts":                        testStream,
	"a slow reader stops its own answer only":   testSlowReader,
	"a reader that leaves ends the answer":      testReaderLeaves,
	"a handler without an answer":               testNoAnswer,
	"a request for one part of many":            testRequestOfStream,
	"too large":                                 testTooLarge,
	"published in order, and losses are told":   testPublish,
	"subscribed before a request is answered":   testSubscribeFirst,
	"forbidden subjects are refused":            testForbidden,
	"nobody reads another's answers":            testForeignInbox,
	"nobody answers as another":                 testForgedAnswer,
	"nobody is answered in another's inbox":     testForeignReply,
	"two connections of one identity":           testTwoConnections,
	"a server that restarts is found again":     testRestart,
	"what failed while disconnected stays dead": testNoReplay,
}

func TestConformanceInABubble(t *testing.T) {
	for name, check := range conformance {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, inProcess(t)) })
		})
	}
}

func TestConformanceOverTCP(t *testing.T) {
	for name, check := range conformance {
		t.Run(name, func(t *testing.T) { check(t, overTCP(t)) })
	}
}

func TestConformanceOfAStockServer(t *testing.T) {
	s := stockServer(t)
	for name, check := range conformance {
		t.Run(name, func(t *testing.T) { check(t, s.in(t)) })
	}
}

const (
	askAsAnn = "api.client:ann.get.pods.default.web"
	askAsN1  = "api.node:n1.get.pods.default.web"
	askAsN2  = "api.node:n2.get.pods.default.web"
)

func testAnswer(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		_ = call.Send(ctx, []byte(call.Subject+" "+string(call.Data)), false)
	})
	s.await(client, askAsAnn)
	got, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("please"))
	if err != nil || string(got) != askAsAnn+" please" {
		t.Errorf("Request: %q, %v", got, err)
	}
	got, err = client.Request(boundedContext(t), proto.APIServer, askAsAnn, nil)
	if err != nil || string(got) != askAsAnn+" " {
		t.Errorf("Request without data: %q, %v", got, err)
	}
}

func testConcurrentCalls(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	second := make(chan struct{})
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) == "first" {
			select {
			case <-second:
			case <-ctx.Done():
			}
		} else {
			close(second)
		}
		echo(ctx, call)
	})
	s.await(client, askAsAnn)
	first := make(chan error, 1)
	go func() {
		_, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("first"))
		first <- err
	}()
	if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("second")); err != nil {
		t.Errorf("second: %v", err)
	}
	if err := <-first; err != nil {
		t.Errorf("first: %v", err)
	}
}

func testNoResponder(t *testing.T, s *harness) {
	client := s.dial(ann)
	if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, nil); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("Request: %v, want %v", err, bus.ErrNoResponder)
	}
	if _, err := collect(client.Stream(boundedContext(t), proto.APIServer, askAsAnn, nil)); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("Stream: %v, want %v", err, bus.ErrNoResponder)
	}
}

// count answers with the numbers from 0, as many as asked for.
func count(ctx context.Context, call *bus.Call) {
	var n int
	if _, err := fmt.Sscan(string(call.Data), &n); err != nil {
		return
	}
	for i := range n {
		if err := call.Send(ctx, fmt.Append(nil, i), i < n-1); err != nil {
			return
		}
	}
}

// collect reads a stream to its end.
func collect(parts func(func([]byte, error) bool)) (string, error) {
	var all []string
	for part, err := range parts {
		if err != nil {
			return strings.Join(all, " "), err
		}
		all = append(all, string(part))
	}
	return strings.Join(all, " "), nil
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, " ")
}

func testStream(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, count)
	s.await(client, askAsAnn)
	for _, n := range []int{1, 2, 7, 8, 9, 16, 17, 500} {
		got, err := collect(client.Stream(boundedContext(t), proto.APIServer, askAsAnn, fmt.Append(nil, n)))
		if err != nil || got != numbers(n) {
			t.Errorf("Stream of %d parts: %q, %v", n, got, err)
		}
	}
}

func testSlowReader(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	sent := make(chan int, 1000)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) != "stream" {
			echo(ctx, call)
			return
		}
		for i := range 100 {
			if call.Send(ctx, fmt.Append(nil, i), i < 99) != nil {
				return
			}
			sent <- i
		}
	})
	s.await(client, askAsAnn)
	read := 0
	for part, err := range client.Stream(boundedContext(t), proto.APIServer, askAsAnn, []byte("stream")) {
		if err != nil || string(part) != fmt.Sprint(read) {
			t.Fatalf("part %d: %q, %v", read, part, err)
		}
		if read == 0 {
			// The sender is stuck here, while other calls go on.
			for i := range 8 {
				if got := <-sent; got != i {
					t.Fatalf("sent %d, want %d", got, i)
				}
			}
			for range 20 {
				if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, nil); err != nil {
					t.Fatalf("Request beside a stream that nobody reads: %v", err)
				}
			}
			if len(sent) != 0 {
				t.Fatalf("the sender is more than 8 parts ahead of its reader")
			}
		}
		read++
	}
	if read != 100 {
		t.Errorf("read %d parts, want 100", read)
	}
}

func testReaderLeaves(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	result := make(chan error, 1)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		for {
			if err := call.Send(ctx, []byte("more"), true); err != nil {
				result <- err
				return
			}
		}
	})
	s.await(client, askAsAnn)
	for _, err := range client.Stream(boundedContext(t), proto.APIServer, askAsAnn, nil) {
		if err != nil {
			t.Errorf("Stream: %v", err)
		}
		break
	}
	if err := <-result; !errors.Is(err, bus.ErrPeerGone) {
		t.Errorf("after the reader left its loop, Send: %v, want %v", err, bus.ErrPeerGone)
	}
	ctx, cancel := context.WithCancel(boundedContext(t))
	defer cancel()
	for _, err := range client.Stream(ctx, proto.APIServer, askAsAnn, nil) {
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Stream: %v, want %v", err, context.Canceled)
		}
	}
	if err := <-result; !errors.Is(err, bus.ErrPeerGone) {
		t.Errorf("after the reader's context ended, Send: %v, want %v", err, bus.ErrPeerGone)
	}
}

func testNoAnswer(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) == "half" {
			_ = call.Send(ctx, []byte("a part"), true)
		}
	})
	s.await(client, askAsAnn)
	if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, nil); !errors.Is(err, bus.ErrAbandoned) {
		t.Errorf("Request: %v, want %v", err, bus.ErrAbandoned)
	}
	got, err := collect(client.Stream(boundedContext(t), proto.APIServer, askAsAnn, []byte("half")))
	if got != "a part" || !errors.Is(err, bus.ErrAbandoned) {
		t.Errorf("Stream: %q, %v, want the part and %v", got, err, bus.ErrAbandoned)
	}
}

func testRequestOfStream(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	gone := make(chan struct{})
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		_ = call.Send(ctx, []byte("first"), true)
		select {
		case <-call.Gone():
			close(gone)
		case <-ctx.Done():
		}
	})
	s.await(client, askAsAnn)
	if got, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, nil); err == nil {
		t.Errorf("Request took a part for the whole: %q", got)
	}
	<-gone
}

func testTooLarge(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) != "much" {
			echo(ctx, call)
			return
		}
		if err := call.Send(ctx, make([]byte, 8<<20+1), false); !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("Send: %v, want %v", err, bus.ErrTooLarge)
		}
		_ = call.Send(ctx, []byte("too much"), false)
	})
	s.await(client, askAsAnn)
	for _, size := range []int{8<<20 + 1, 64 << 20} {
		if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, make([]byte, size)); !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("Request of %d bytes: %v, want %v", size, err, bus.ErrTooLarge)
		}
		if err := api.Publish("watch.cluster.g1", make([]byte, size)); !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("Publish of %d bytes: %v, want %v", size, err, bus.ErrTooLarge)
		}
	}
	long := "watch.cluster." + strings.Repeat("x", 4096)
	if _, err := client.Request(boundedContext(t), proto.APIServer, long, nil); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("Request of a long subject: %v, want %v", err, bus.ErrTooLarge)
	}
	if _, err := client.Open(boundedContext(t), proto.APIServer, long, nil); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("Open of a long subject: %v, want %v", err, bus.ErrTooLarge)
	}
	if err := api.Publish(long, nil); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("Publish to a long subject: %v, want %v", err, bus.ErrTooLarge)
	}
	if _, err := client.Subscribe(long, 1); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("Subscribe to a long subject: %v, want %v", err, bus.ErrTooLarge)
	}
	most := bytes.Repeat([]byte("x"), 8<<20)
	if got, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, most); err != nil || !bytes.Equal(got, most) {
		t.Errorf("Request of the largest size: %d bytes, %v", len(got), err)
	}
	if got, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("much")); err != nil || string(got) != "too much" {
		t.Errorf("Request of an answer that is too large: %q, %v", got, err)
	}
}
