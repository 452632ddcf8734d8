package bus_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// payload is about the size of a pod on the wire.
var payload = make([]byte, 1500)

// BenchmarkRequest is a round trip with permissions checked, beside request-reply of
// NATS itself on an open server, one at a time and many at a time.
func BenchmarkRequest(b *testing.B) {
	b.Run("bus", func(b *testing.B) {
		s := overTCP(b)
		client := busPair(s)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.Request(b.Context(), proto.APIServer, askAsAnn, payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		client := rawPair(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.RequestWithContext(b.Context(), askAsAnn, payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bus-parallel", func(b *testing.B) {
		client := busPair(overTCP(b))
		b.SetParallelism(32)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := client.Request(b.Context(), proto.APIServer, askAsAnn, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("raw-parallel", func(b *testing.B) {
		client := rawPair(b)
		b.SetParallelism(32)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := client.RequestWithContext(b.Context(), askAsAnn, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func busPair(s *harness) *bus.Conn {
	api, client := s.dial(proto.APIServer), s.dial(ann)
	s.serve(api, echo)
	s.await(client, askAsAnn)
	return client
}

func rawPair(b *testing.B) *nats.Conn {
	b.Helper()
	server := startServer(b, bus.ServerConfig{})
	var conns []*nats.Conn
	for range 2 {
		nc, err := nats.Connect(server.URL())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		conns = append(conns, nc)
	}
	if _, err := conns[0].Subscribe("api.>", func(msg *nats.Msg) { _ = msg.Respond(msg.Data) }); err != nil {
		b.Fatal(err)
	}
	if err := conns[0].FlushWithContext(boundedContext(b)); err != nil {
		b.Fatal(err)
	}
	return conns[1]
}

// BenchmarkPublish is deliveries to one reader, beside NATS itself.
func BenchmarkPublish(b *testing.B) {
	const pending = 1 << 16
	b.Run("bus", func(b *testing.B) {
		s := overTCP(b)
		api, client := s.dial(proto.APIServer), s.dial(ann)
		sub, err := client.Subscribe("watch.cluster.g1", pending)
		if err != nil {
			b.Fatal(err)
		}
		if err := client.Flush(boundedContext(b)); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		deliver(b, func() error { return api.Publish("watch.cluster.g1", payload) }, func(ctx context.Context) error {
			_, err := sub.Next(ctx)
			return err
		})
	})
	b.Run("raw", func(b *testing.B) {
		nc := rawPair(b)
		sub, err := nc.SubscribeSync("watch.cluster.g1")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		deliver(b, func() error { return nc.Publish("watch.cluster.g1", payload) }, func(ctx context.Context) error {
			_, err := sub.NextMsgWithContext(ctx)
			return err
		})
	})
}

// deliver publishes and reads in rounds that fit the reader's queue.
func deliver(b *testing.B, publish func() error, next func(context.Context) error) {
	b.Helper()
	for sent := 0; sent < b.N; {
		round := min(b.N-sent, 1000)
		for range round {
			if err := publish(); err != nil {
				b.Fatal(err)
			}
		}
		for range round {
			if err := next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		sent += round
	}
}

// BenchmarkStream is an answer of 1 MiB in parts of 32 KiB.
func BenchmarkStream(b *testing.B) {
	s := overTCP(b)
	api, client := s.dial(proto.APIServer), s.dial(ann)
	part := make([]byte, 32<<10)
	s.serve(api, func(ctx context.Context, call *bus.Call) {
		for i := range 32 {
			if call.Send(ctx, part, i < 31) != nil {
				return
			}
		}
	})
	s.await(client, askAsAnn)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range client.Stream(b.Context(), proto.APIServer, askAsAnn, nil) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
