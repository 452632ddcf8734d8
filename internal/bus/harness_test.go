package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

var (
	ann   = proto.Client("ann")
	node1 = proto.Node("n1")
	node2 = proto.Node("n2")
)

// boundedContext ends a test that hangs; in a bubble it costs nothing.
func boundedContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// keyring holds the keys of all identities that connect.
type keyring struct {
	t     testing.TB
	users []bus.User
	seeds map[proto.Identity][]byte
}

func newKeyring(t testing.TB) *keyring {
	return &keyring{t: t, seeds: make(map[proto.Identity][]byte)}
}

func (k *keyring) add(ids ...proto.Identity) *keyring {
	k.t.Helper()
	for _, id := range ids {
		seed, public, err := bus.NewKey()
		if err != nil {
			k.t.Fatal(err)
		}
		k.seeds[id] = seed
		k.users = append(k.users, bus.User{Identity: id, Public: public})
	}
	return k
}

func startServer(t testing.TB, cfg bus.ServerConfig) *bus.Server {
	t.Helper()
	server, err := bus.StartServer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// harness is a bus under test, in whatever form it runs.
type harness struct {
	t       testing.TB
	keys    *keyring
	connect func(cfg bus.Config) bus.Config // fills in where the bus is
	down    func()                          // ends the bus
	up      func()                          // starts it again where it was
}

// in returns the harness for a subtest.
func (s *harness) in(t testing.TB) *harness {
	part := *s
	part.t = t
	return &part
}

func (s *harness) restart() {
	s.down()
	s.up()
}

func newKeys(t testing.TB) *keyring {
	return newKeyring(t).add(proto.APIServer, proto.Controllers, ann, node1, node2)
}

func (s *harness) dial(id proto.Identity) *bus.Conn {
	s.t.Helper()
	conn, err := bus.Dial(boundedContext(s.t), s.connect(bus.Config{Identity: id, Seed: s.keys.seeds[id]}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// serve runs a handler as the apiserver until the test ends.
func (s *harness) serve(conn *bus.Conn, h bus.Handler) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- conn.Serve(ctx, "api.>", func(ctx context.Context, call *bus.Call) {
			if string(call.Data) == probe {
				echo(ctx, call)
				return
			}
			h(ctx, call)
		})
	}()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Serve: %v", err)
		}
		// A bus that does not know it yet would lose here what the next test asks.
		if err := conn.Flush(context.WithoutCancel(s.t.Context())); err != nil && !errors.Is(err, bus.ErrDisconnected) {
			s.t.Errorf("Flush: %v", err)
		}
	})
}

const probe = "are you there?"

// await returns when the apiserver answers requests on subject.
func (s *harness) await(conn *bus.Conn, subject string) {
	s.t.Helper()
	ctx := boundedContext(s.t)
	for {
		_, err := conn.Request(ctx, proto.APIServer, subject, []byte(probe))
		if err == nil {
			return
		}
		if !errors.Is(err, bus.ErrNoResponder) && !errors.Is(err, bus.ErrDisconnected) {
			s.t.Fatalf("await %s: %v", subject, err)
		}
		// Let time pass in a bubble: the one that is asked may be waiting to connect.
		if err := (clock.Clock{}).Sleep(ctx, time.Millisecond); err != nil {
			s.t.Fatalf("await %s: %v", subject, err)
		}
	}
}

// echo answers with what was asked.
func echo(ctx context.Context, call *bus.Call) { _ = call.Send(ctx, call.Data, false) }

// inProcess is a bus without sockets, for bubbles.
func inProcess(t testing.TB) *harness {
	s := &harness{t: t, keys: newKeys(t)}
	cfg := bus.ServerConfig{Port: bus.InProcessOnly, Users: s.keys.users}
	var current atomic.Pointer[bus.Server]
	current.Store(startServer(t, cfg))
	s.connect = func(c bus.Config) bus.Config {
		c.InProcess = func() (net.Conn, error) { return current.Load().InProcessConn() }
		return c
	}
	s.down = func() { current.Load().Close() }
	s.up = func() { current.Store(startServer(t, cfg)) }
	return s
}

// overTCP is the embedded server with its socket.
func overTCP(t testing.TB) *harness {
	s, front := &harness{t: t, keys: newKeys(t)}, openProxy(t)
	s.connect = throughProxy(front)
	var server *bus.Server
	s.up = func() {
		server = startServer(t, bus.ServerConfig{Users: s.keys.users})
		front.connectTo(server.URL())
	}
	s.down = func() {
		front.close()
		server.Close()
	}
	s.up()
	return s
}

// throughProxy connects through a proxy.
func throughProxy(d *proxy) func(bus.Config) bus.Config {
	return func(c bus.Config) bus.Config {
		c.URLs = []string{d.url()}
		return c
	}
}

// stockServer is a stock nats-server in a process of its own.
func stockServer(t testing.TB) *harness {
	s, front := &harness{t: t, keys: newKeys(t)}, openProxy(t)
	binary := filepath.Join(t.TempDir(), "nats-server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, out)
	}
	s.connect = throughProxy(front)
	var stop func()
	s.up = func() {
		var address string
		address, stop = startProcess(t, binary, bus.ServerConfig{Users: s.keys.users})
		front.connectTo("nats://" + address)
	}
	s.down = func() {
		front.close()
		stop()
	}
	s.up()
	return s
}

// startProcess runs nats-server until stop or the end of the test, and reads from its
// log where it listens.
func startProcess(t testing.TB, binary string, cfg bus.ServerConfig) (address string, stop func()) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, []byte(cfg.NATSConfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-c", config)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	var seen strings.Builder
	ready := false
	for !ready && lines.Scan() {
		fmt.Fprintln(&seen, lines.Text())
		if _, text, ok := strings.Cut(lines.Text(), "Listening for client connections on "); ok {
			address = text
		}
		ready = strings.Contains(lines.Text(), "Server is ready")
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, log)
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	if !ready || address == "" {
		t.Fatalf("nats-server did not start:\n%s", &seen)
	}
	return address, stop
}
