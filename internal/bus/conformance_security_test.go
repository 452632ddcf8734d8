package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

func testPublish(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	sub := subscribe(t, client, "watch.cluster.g1", 10)
	for i := range 10 {
		publish(t, api, "watch.cluster.g1", fmt.Sprint(i))
	}
	for i := range 10 {
		wantMessage(t, sub, fmt.Sprint(i))
	}
	other := subscribe(t, client, "watch.cluster.g2", 100)
	for i := range 15 {
		publish(t, api, "watch.cluster.g1", fmt.Sprint(i))
	}
	publish(t, api, "watch.cluster.g2", "last")
	wantMessage(t, other, "last") // so the fifteen have arrived
	if got, err := sub.Next(boundedContext(t)); !errors.Is(err, bus.ErrMissedMessages) {
		t.Errorf("Next after a loss: %q, %v, want %v", got, err, bus.ErrMissedMessages)
	}
	for i := range 10 {
		wantMessage(t, sub, fmt.Sprint(i))
	}
	publish(t, api, "watch.cluster.g1", "after")
	wantMessage(t, sub, "after")
	sub.Close()
	if _, err := sub.Next(boundedContext(t)); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Next after Close: %v, want %v", err, bus.ErrClosed)
	}
}

func testSubscribeFirst(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		_ = api.Publish("watch.cluster."+string(call.Data), []byte("live"))
		echo(ctx, call)
	})
	s.await(client, askAsAnn)
	for i := range 200 {
		group := fmt.Sprintf("g%d", i)
		sub, err := client.Subscribe("watch.cluster."+group, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte(group)); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, sub, "live")
		sub.Close()
	}
}

func testForbidden(t *testing.T, s *harness) {
	node := s.dial(node1)
	if _, err := node.Request(boundedContext(t), proto.APIServer, askAsN2, nil); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("Request as another node: %v, want %v", err, bus.ErrForbidden)
	}
	if _, err := collect(node.Stream(boundedContext(t), proto.APIServer, askAsAnn, nil)); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("Stream as a client: %v, want %v", err, bus.ErrForbidden)
	}
	if err := node.Serve(boundedContext(t), "api.>", echo); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("Serve as the apiserver: %v, want %v", err, bus.ErrForbidden)
	}
	for _, subject := range []string{"watch.cluster.g1", "watch.node.n2.g1", "watch.>", "$SYS.>", ">"} {
		sub, err := node.Subscribe(subject, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sub.Next(boundedContext(t)); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("read %s: %v, want %v", subject, err, bus.ErrForbidden)
		}
	}
	watch := subscribe(t, node, "watch.node.n1.g1", 10)
	publish(t, s.dial(node2), "watch.node.n1.g1", "forged")
	publish(t, s.dial(proto.APIServer), "watch.node.n1.g1", "true")
	wantMessage(t, watch, "true")
}

func testForeignInbox(t *testing.T, s *harness) {
	node := s.dial(node1)
	for _, subject := range []string{"r.client:ann.>", "r.*.apiserver.>", "r.>", "r.client:ann.apiserver.*.*", "_INBOX.>"} {
		sub, err := node.Subscribe(subject, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sub.Next(boundedContext(t)); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("read %s: %v, want %v", subject, err, bus.ErrForbidden)
		}
	}
}

// testForgedAnswer has a node answer a request that was sent to the apiserver, at the very
// subject where the answer is expected.
func testForgedAnswer(t *testing.T, s *harness) {
	api, client, thief := s.dial(proto.APIServer), s.dial(ann), s.dial(node1)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		reply := call.ReplyForTest()
		publish(t, thief, reply, "forged")
		publish(t, thief, strings.Replace(reply, ".apiserver.", ".node:n1.", 1), "in its own name")
		if err := thief.Flush(ctx); err != nil {
			t.Errorf("flush: %v", err)
		}
		echo(ctx, call)
	})
	s.await(client, askAsAnn)
	if got, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("true")); err != nil || string(got) != "true" {
		t.Errorf("Request: %q, %v", got, err)
	}
}

// testForeignReply has a node ask under its own name for an answer in ann's inbox.
func testForeignReply(t *testing.T, s *harness) {
	api, client, thief := s.dial(proto.APIServer), s.dial(ann), s.dial(node1)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) == "stolen" {
			t.Errorf("%s with a foreign reply subject was served", call.Subject)
		}
		echo(ctx, call)
	})
	s.await(client, askAsAnn)
	s.await(thief, askAsN1)
	for _, reply := range []string{
		"r.client:ann.apiserver.c.1", "r.node:n1.node:n2.c.1", "r.node:n1", "watch.cluster.g1", "api.node:n1.x",
	} {
		if err := thief.SendForTest(askAsN1, reply, []byte("stolen")); err != nil {
			t.Errorf("publish: %v", err)
		}
	}
	// The thief's messages arrive in order, so that this comes after them.
	s.await(thief, askAsN1)
}

func testTwoConnections(t *testing.T, s *harness) {
	api, one, two := s.dial(proto.APIServer), s.dial(ann), s.dial(ann)
	s.serve(api, echo)
	s.await(one, askAsAnn)
	results := make(chan error, 2)
	for name, conn := range map[string]*bus.Conn{"one": one, "two": two} {
		go func() {
			for i := range 100 {
				text := fmt.Sprint(name, i)
				got, err := conn.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte(text))
				if err == nil && string(got) != text {
					err = fmt.Errorf("asked %s, got %s", text, got)
				}
				if err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func testRestart(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	started := make(chan struct{}, 1)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) == "hang" {
			started <- struct{}{}
			<-call.Gone() // also reports a lost connection
		}
		echo(ctx, call)
	})
	s.await(client, askAsAnn)
	sub := subscribe(t, client, "watch.cluster.g1", 10)
	waiting := make(chan error, 1)
	go func() {
		_, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("hang"))
		waiting <- err
	}()
	<-started
	s.restart()
	if err := <-waiting; !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("Request when the bus ended: %v, want %v", err, bus.ErrDisconnected)
	}
	if got, err := sub.Next(boundedContext(t)); !errors.Is(err, bus.ErrMissedMessages) {
		t.Errorf("Next after a restart: %q, %v, want %v", got, err, bus.ErrMissedMessages)
	}
	s.await(client, askAsAnn) // both are connected again, and the subscription is known
	publish(t, api, "watch.cluster.g1", "again")
	wantMessage(t, sub, "again")
}

func testNoReplay(t *testing.T, s *harness) {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		if string(call.Data) == "stale" {
			t.Error("a request that failed was delivered after the reconnect")
		}
		echo(ctx, call)
	})
	s.await(client, askAsAnn)
	s.down()
	waitFor(t, client, false)
	for range 3 {
		if _, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, []byte("stale")); !errors.Is(err, bus.ErrDisconnected) {
			t.Errorf("Request while disconnected: %v, want %v", err, bus.ErrDisconnected)
		}
		if err := client.Publish(askAsAnn, []byte("stale")); !errors.Is(err, bus.ErrDisconnected) {
			t.Errorf("Publish while disconnected: %v, want %v", err, bus.ErrDisconnected)
		}
	}
	s.up()
	waitFor(t, client, true)
	// What the client sends arrives in order, so that this comes after the stale ones.
	s.await(client, askAsAnn)
}

func waitFor(t *testing.T, conn *bus.Conn, up bool) {
	t.Helper()
	for conn.Connected() != up {
		select {
		case <-conn.Changes():
		case <-boundedContext(t).Done():
			t.Fatalf("waited too long for connected=%v", up)
		}
	}
}

// subscribe returns when the bus has taken note of the subscription.
func subscribe(t *testing.T, conn *bus.Conn, subject string, limit int) *bus.Subscription {
	t.Helper()
	sub, err := conn.Subscribe(subject, limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(boundedContext(t)); err != nil {
		t.Fatal(err)
	}
	return sub
}

func publish(t *testing.T, conn *bus.Conn, subject, text string) {
	t.Helper()
	if err := conn.Publish(subject, []byte(text)); err != nil {
		t.Errorf("publish %s: %v", subject, err)
	}
}

func wantMessage(t *testing.T, sub *bus.Subscription, text string) {
	t.Helper()
	got, err := sub.Next(boundedContext(t))
	if err != nil || string(got) != text {
		t.Errorf("Next: %q, %v, want %q", got, err, text)
	}
}
