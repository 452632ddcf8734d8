package bus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	carrier "github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/bus"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start runs a bus until stop or the end of the test.
func start(t *testing.T, cfg bus.Config) (at bus.Addresses, stop func()) {
	t.Helper()
	ready := make(chan bus.Addresses, 1)
	cfg.Ready = func(at bus.Addresses) { ready <- at }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- bus.Run(ctx, cfg) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case at = <-ready:
	case err := <-ended:
		stopped = true
		t.Fatalf("Run: %v", err)
	}
	return at, stop
}

func dial(t *testing.T, cfg carrier.Config) *carrier.Conn {
	t.Helper()
	conn, err := carrier.Dial(bounded(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// serve echoes all requests until the test ends.
func serve(t *testing.T, conn *carrier.Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- conn.Serve(ctx, "api.>", func(ctx context.Context, call *carrier.Call) {
			_ = call.Send(ctx, call.Data, false)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// awaitEcho waits until the apiserver answers node.
func awaitEcho(t *testing.T, conn *carrier.Conn) {
	t.Helper()
	subject := proto.APISubject{Identity: conn.Identity(), Verb: proto.VerbGet, Resource: "pods"}.String()
	ctx := bounded(t)
	for {
		got, err := conn.Request(ctx, proto.APIServer, subject, []byte("hello"))
		if err == nil && string(got) == "hello" {
			return
		}
		if !errors.Is(err, carrier.ErrNoResponder) && !errors.Is(err, carrier.ErrDisconnected) {
			t.Fatalf("%s asks: %q, %v", conn.Identity(), got, err)
		}
		// Let time pass in a bubble: a client may be waiting to connect.
		if err := (clock.Clock{}).Sleep(ctx, time.Millisecond); err != nil {
			t.Fatalf("%s asks: %v", conn.Identity(), err)
		}
	}
}

func seed(t *testing.T, dir string, id proto.Identity) []byte {
	t.Helper()
	seed, err := carrier.LoadSeed(dir, id)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

func TestEveryNodeReachesTheHubThroughItsLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "credentials")
	cfg := bus.Config{Nodes: []string{"n1", "n2", "n.3"}, Credentials: dir}
	at, stop := start(t, cfg)
	if len(at.Hub) != 1 || len(at.Links) != 6 {
		t.Fatalf("Ready: %+v, want a hub and six links", at)
	}
	api := dial(t, carrier.Config{URLs: at.Hub, Identity: proto.APIServer, Seed: seed(t, dir, proto.APIServer)})
	serve(t, api)
	admin := dial(t, carrier.Config{URLs: at.Hub, Identity: proto.Client("admin"), Seed: seed(t, dir, proto.Client("admin"))})
	awaitEcho(t, admin)
	var nodes []*carrier.Conn
	for member, url := range at.Links {
		if !strings.HasPrefix(url, "nats://127.0.0.1:") {
			t.Errorf("link of %s listens at %s, want loopback", member, url)
		}
		id := proto.Identity(member)
		if slices.Contains(cfg.Nodes, member) {
			id = proto.Node(member)
		} else if member == partition.APIServer {
			continue // the apiserver answers itself
		}
		conn := dial(t, carrier.Config{URLs: []string{url}, Identity: id, Seed: seed(t, dir, id)})
		awaitEcho(t, conn)
		nodes = append(nodes, conn)
	}

	// All clients reconnect to a bus that restarts at the same addresses.
	stop()
	cfg.Pinned = at
	again, _ := start(t, cfg)
	if !reflect.DeepEqual(again, at) {
		t.Errorf("after a restart at %+v, want %+v", again, at)
	}
	for _, conn := range append(nodes, admin) {
		awaitEcho(t, conn)
	}
}

// unusedAddress returns an address on which nothing can listen until the test ends: the local end
// of a connection.
func unusedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}

func TestLinksOfAnExistingServer(t *testing.T) {
	server, err := carrier.StartServer(t.Context(), carrier.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	external := []string{"nats://" + unusedAddress(t), server.URL()}
	at, stop := start(t, bus.Config{Nodes: []string{"n1"}, External: external})
	if !reflect.DeepEqual(at.Hub, external) {
		t.Errorf("hub at %v, want %v", at.Hub, external)
	}
	api := dial(t, carrier.Config{URLs: external, Identity: proto.APIServer})
	serve(t, api)
	node := dial(t, carrier.Config{URLs: []string{at.Links["n1"]}, Identity: proto.Node("n1")})
	awaitEcho(t, node)
	admin := dial(t, carrier.Config{URLs: external, Identity: proto.Client("admin")})
	stop()
	ctx := bounded(t)
	for node.Connected() {
		select {
		case <-node.Changes():
		case <-ctx.Done():
			t.Fatal("the node is still connected after its link has ended")
		}
	}
	awaitEcho(t, admin)
}

func TestRunSaysWhatItCannotDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	used := "nats://" + taken.Addr().String()
	for name, c := range map[string]struct {
		cfg  bus.Config
		want string
	}{
		"hub port in use":  {bus.Config{Pinned: bus.Addresses{Hub: []string{used}}}, "address already in use"},
		"link port in use": {bus.Config{Nodes: []string{"n0", "n1"}, Pinned: bus.Addresses{Links: map[string]string{"n1": used}}}, "link of n1: "},
		"pinned nonsense":  {bus.Config{Pinned: bus.Addresses{Hub: []string{"nats://here"}}}, "nats://here"},
		"not a URL":        {bus.Config{External: []string{"here"}}, `"here"`},
		"exposed seeds":    {bus.Config{Credentials: "/"}, "open to other users"},
	} {
		if err := bus.Run(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Run: %v, want %q in it", name, err, c.want)
		}
	}
}

// TestLinkInABubble reaches a hub without sockets through links without sockets.
func TestLinkInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := carrier.StartServer(t.Context(), carrier.ServerConfig{Port: carrier.InProcessOnly})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		hub := func(context.Context) (net.Conn, error) { return server.InProcessConn() }
		serve(t, dial(t, carrier.Config{InProcess: server.InProcessConn, Identity: proto.APIServer}))
		links := map[string]context.CancelFunc{}
		nodes := map[string]*carrier.Conn{}
		for i := range 3 {
			name := fmt.Sprintf("n%d", i)
			link := bus.NewLink(bus.LinkConfig{Member: name, Dial: hub})
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			ended := make(chan error, 1)
			go func() { ended <- link.Run(ctx) }()
			t.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Run: %v", err)
				}
			})
			links[name] = cancel
			nodes[name] = dial(t, carrier.Config{InProcess: link.InProcessConn, Identity: proto.Node(link.Member)})
			awaitEcho(t, nodes[name])
		}
		links["n1"]()
		synctest.Wait()
		for name, conn := range nodes {
			if conn.Connected() == (name == "n1") {
				t.Errorf("after the link of n1 has ended, %s is connected: %v", name, conn.Connected())
			}
		}
		awaitEcho(t, nodes["n0"])
	})
}

func TestLinkCarriesAllBytesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		link := bus.NewLink(bus.LinkConfig{Member: "n1", Dial: func(context.Context) (net.Conn, error) { return far, nil }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- link.Run(ctx) }()
		node, err := link.InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []struct{ from, to net.Conn }{{node, near}, {near, node}} {
			sent := make([]byte, 100_000)
			for i := range sent {
				sent[i] = byte(i % 251)
			}
			go func() { _, _ = way.from.Write(sent) }()
			got := make([]byte, len(sent))
			for read := 0; read < len(got); {
				n, err := way.to.Read(got[read:])
				if err != nil {
					t.Fatal(err)
				}
				read += n
			}
			if !reflect.DeepEqual(got, sent) {
				t.Error("the bytes changed on the way")
			}
		}
		_ = near.Close()
		if n, err := node.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes after the hub has ended the connection", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
