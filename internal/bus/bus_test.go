package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

func TestSenderGivesUpOnASilentReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		api, client := s.dial(proto.APIServer), s.dial(ann)
		sent := 0
		result := make(chan error, 1)
		var stuck time.Time
		s.serve(api, func(ctx context.Context, call *bus.Call) {
			for {
				if err := call.Send(ctx, []byte("part"), true); err != nil {
					result <- err
					return
				}
				sent++
				stuck = time.Now()
			}
		})
		s.await(client, askAsAnn)
		read := 0
		var last error
		for _, err := range client.Stream(boundedContext(t), proto.APIServer, askAsAnn, nil) {
			if last = err; err != nil {
				break
			}
			if read++; read == 1 {
				if err := <-result; !errors.Is(err, bus.ErrPeerGone) {
					t.Errorf("Send: %v, want %v", err, bus.ErrPeerGone)
				}
				if took := time.Since(stuck); took != 30*time.Second {
					t.Errorf("Send gave up after %v, want 30s", took)
				}
			}
		}
		if sent != 8 || read != 8 || !errors.Is(last, bus.ErrAbandoned) {
			t.Errorf("sent %d, read %d, then %v; want 8, 8, %v", sent, read, last, bus.ErrAbandoned)
		}
	})
}

func TestSendEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		api, client := s.dial(proto.APIServer), s.dial(ann)
		result := make(chan error, 1)
		s.serve(api, func(ctx context.Context, call *bus.Call) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var err error
			for err == nil {
				err = call.Send(ctx, []byte("part"), true)
			}
			result <- err
		})
		s.await(client, askAsAnn)
		for _, err := range client.Stream(boundedContext(t), proto.APIServer, askAsAnn, nil) {
			if err != nil {
				t.Errorf("Stream: %v", err)
			}
			if err := <-result; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Send: %v, want %v", err, context.DeadlineExceeded)
			}
			break
		}
	})
}

func TestRequestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		api, client := s.dial(proto.APIServer), s.dial(ann)
		s.serve(api, func(ctx context.Context, _ *bus.Call) { <-ctx.Done() })
		s.await(client, askAsAnn)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := client.Request(ctx, proto.APIServer, askAsAnn, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Request: %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("Request returned after %v, want 3s", took)
		}
	})
}

// TestServeIsBounded occupies every worker, and checks that the next call waits for one.
func TestServeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		api, client := s.dial(proto.APIServer), s.dial(ann)
		running := make(chan struct{}, 2000)
		leave := make(chan struct{})
		s.serve(api, func(ctx context.Context, call *bus.Call) {
			running <- struct{}{}
			<-leave
			echo(ctx, call)
		})
		s.await(client, askAsAnn)
		results := make(chan error, 1100)
		for range 1100 {
			go func() {
				_, err := client.Request(boundedContext(t), proto.APIServer, askAsAnn, nil)
				results <- err
			}()
		}
		synctest.Wait()
		if len(running) != 1024 {
			t.Errorf("%d calls are running, want 1024", len(running))
		}
		close(leave)
		for range 1100 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDeadPeerIsNoticed has a connection whose bytes stop moving without an end.
func TestDeadPeerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		client := s.dial(ann)
		blocked := s.writeGate()
		cut := s.dial(node1)
		blocked.Store(true)
		start := time.Now()
		waitFor(t, cut, false)
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("a dead connection was noticed after %v, want at most 8s", took)
		}
		time.Sleep(10 * time.Minute)
		blocked.Store(false)
		start = time.Now()
		waitFor(t, cut, true)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("reconnected %v after the path was whole again, want at most 3s", took)
		}
		if !client.Connected() {
			t.Error("the other connection was lost, too")
		}
	})
}

// TestListenOnADeadConnection begins to listen just before anybody can know that the
// connection is dead: it listens from the reconnect on, as if the bus were away.
func TestListenOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		client := s.dial(ann)
		blocked := s.writeGate()
		api := s.dial(proto.APIServer)
		blocked.Store(true)
		time.AfterFunc(time.Minute, func() { blocked.Store(false) })
		s.serve(api, func(context.Context, *bus.Call) {})
		time.Sleep(2 * time.Minute)
		s.await(client, askAsAnn)
	})
}

func TestDialWaitsForTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server atomic.Pointer[bus.Server]
		dial := func(ctx context.Context) (*bus.Conn, error) {
			return bus.Dial(ctx, bus.Config{Identity: ann, InProcess: func() (net.Conn, error) {
				if server.Load() == nil {
					return nil, net.ErrClosed
				}
				return server.Load().InProcessConn()
			}})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial without a bus: %v, want %v", err, context.DeadlineExceeded)
		}
		connected := make(chan error, 1)
		go func() {
			conn, err := dial(t.Context())
			if err == nil {
				conn.Close()
			}
			connected <- err
		}()
		time.Sleep(10 * time.Minute)
		server.Store(startServer(t, bus.ServerConfig{Port: bus.InProcessOnly}))
		if err := <-connected; err != nil {
			t.Errorf("Dial: %v", err)
		}
	})
}

func TestEverythingEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		api, client := s.dial(proto.APIServer), s.dial(ann)
		s.serve(api, func(ctx context.Context, _ *bus.Call) { <-ctx.Done() })
		s.await(client, askAsAnn)
		sub := subscribe(t, client, "watch.cluster.g1", 1)
		ended := make(chan error, 3)
		go func() {
			_, err := client.Request(t.Context(), proto.APIServer, askAsAnn, nil)
			ended <- err
		}()
		go func() {
			_, err := sub.Next(t.Context())
			ended <- err
		}()
		go func() { ended <- client.Serve(t.Context(), "watch.cluster.>", echo) }()
		synctest.Wait()
		client.Close()
		client.Close()
		for range 3 {
			if err := <-ended; !errors.Is(err, bus.ErrClosed) {
				t.Errorf("after Close: %v, want %v", err, bus.ErrClosed)
			}
		}
		if err := client.Publish("watch.cluster.g1", nil); !errors.Is(err, bus.ErrClosed) {
			t.Errorf("Publish: %v, want %v", err, bus.ErrClosed)
		}
		if _, err := client.Subscribe("watch.cluster.g1", 1); !errors.Is(err, bus.ErrClosed) {
			t.Errorf("Subscribe: %v, want %v", err, bus.ErrClosed)
		}
	})
}

// A key does no harm on a bus without authentication.
func TestKeyOnAnOpenBus(t *testing.T) {
	server := startServer(t, bus.ServerConfig{})
	seed := newKeyring(t).add(ann).seeds[ann]
	conn, err := bus.Dial(boundedContext(t), bus.Config{URLs: []string{server.URL()}, Identity: ann, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestServerSaysWhyItCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address, ok := taken.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("address %v", taken.Addr())
	}
	_, err = bus.StartServer(t.Context(), bus.ServerConfig{Port: address.Port})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("StartServer: %v, want the reason", err)
	}
}

func TestCredentials(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "credentials")
	ids := []proto.Identity{proto.APIServer, node1, proto.Node("../../n2"), ann}
	users, err := bus.WriteCredentials(dir, ids...)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(ids) {
		t.Fatalf("%d files, %v, want %d", len(entries), err, len(ids))
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v, want 0600", entry.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: mode %v, %v, want 0700", info.Mode(), err)
	}
	again, err := bus.WriteCredentials(dir, append(ids, node2)...)
	if err != nil || len(again) != 5 {
		t.Fatalf("second time: %d users, %v", len(again), err)
	}
	for i, user := range users {
		if again[i] != user {
			t.Errorf("the key of %s was replaced", user.Identity)
		}
	}
	loaded, err := bus.LoadUsers(dir)
	if err != nil || len(loaded) != 5 {
		t.Errorf("LoadUsers: %v, %v, want the same five", loaded, err)
	}
	server := startServer(t, bus.ServerConfig{Users: loaded})
	for _, user := range loaded {
		seed, err := bus.LoadSeed(dir, user.Identity)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := bus.Dial(boundedContext(t), bus.Config{URLs: []string{server.URL()}, Identity: user.Identity, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

// A seed appears completely or not at all: of many concurrent writers one wins, and no reader sees
// a part.
func TestCredentialsAreMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "credentials")
	var ids []proto.Identity
	for i := range 12 {
		ids = append(ids, proto.Node(fmt.Sprint("n", i)))
	}
	var made [8][]bus.User
	var running sync.WaitGroup
	for i := range made {
		running.Go(func() {
			var err error
			if made[i], err = bus.WriteCredentials(dir, ids...); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	for _, users := range made {
		if !slices.Equal(users, made[0]) {
			t.Errorf("one got %v, another %v", users, made[0])
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(ids) {
		t.Errorf("%d files, %v, want %d", len(entries), err, len(ids))
	}
	// The temporary file of a killed writer is never used as a seed.
	if err := os.WriteFile(filepath.Join(dir, "node:n99.nk.new-XYZ"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if users, err := bus.WriteCredentials(dir, proto.Node("n99")); err != nil || len(users) != 1 {
		t.Errorf("after one was killed: %v, %v", users, err)
	}
	if users, err := bus.LoadUsers(dir); err != nil || len(users) != len(ids)+1 {
		t.Errorf("LoadUsers: %d, %v", len(users), err)
	}
}

// A bus without authentication accepts every identity: clients with a key log a warning.
func TestABusWithoutKeysIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed, public, err := bus.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		for name, users := range map[string][]bus.User{"open": nil, "closed": {{Identity: ann, Public: public}}} {
			server := startServer(t, bus.ServerConfig{Port: bus.InProcessOnly, Users: users})
			var log bytes.Buffer
			conn, err := bus.Dial(boundedContext(t), bus.Config{
				InProcess: server.InProcessConn, Identity: ann, Seed: seed, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if warned := strings.Contains(log.String(), "level=WARN"); warned != (users == nil) {
				t.Errorf("%s bus: warned %v: %s", name, warned, &log)
			}
		}
	})
}

// A request whose time is over before it is sent is not sent.
func TestALateRequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t)
		var calls atomic.Int32
		s.serve(s.dial(proto.APIServer), func(ctx context.Context, call *bus.Call) {
			calls.Add(1)
			echo(ctx, call)
		})
		conn := s.dial(ann)
		const subject = "api.client:ann.get.pods._._"
		s.await(conn, subject)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := conn.Request(over, proto.APIServer, subject, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Request: %v, want %v", err, context.Canceled)
		}
		for _, err := range conn.Stream(over, proto.APIServer, subject, nil) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Stream: %v, want %v", err, context.Canceled)
			}
		}
		synctest.Wait()
		if n := calls.Load(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

func TestExposedCredentialsAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "credentials")
	if _, err := bus.WriteCredentials(dir, node1, node2); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "node:n1.nk"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.LoadSeed(dir, node1); !errors.Is(err, bus.ErrExposed) {
		t.Errorf("LoadSeed of a file others can read: %v, want %v", err, bus.ErrExposed)
	}
	if _, err := bus.LoadUsers(dir); !errors.Is(err, bus.ErrExposed) {
		t.Errorf("LoadUsers with a file others can read: %v, want %v", err, bus.ErrExposed)
	}
	if err := os.Remove(filepath.Join(dir, "node:n1.nk")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("node:n2.nk", filepath.Join(dir, "node:n1.nk")); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.WriteCredentials(dir, node1); !errors.Is(err, bus.ErrExposed) {
		t.Errorf("WriteCredentials over a symlink: %v, want %v", err, bus.ErrExposed)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.LoadSeed(dir, node2); !errors.Is(err, bus.ErrExposed) {
		t.Errorf("LoadSeed from an open directory: %v, want %v", err, bus.ErrExposed)
	}
}
