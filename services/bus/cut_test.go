package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	carrier "github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/bus"
)

// testLink is a link with the hub's ends of its connections.
type testLink struct {
	*bus.Link
	hub   chan net.Conn
	dials atomic.Int32
}

func newTestLink(t testing.TB) *testLink {
	t.Helper()
	w := &testLink{hub: make(chan net.Conn, 100)}
	w.Link = bus.NewLink(bus.LinkConfig{Member: "n1", Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		w.dials.Add(1)
		w.hub <- far
		return near, nil
	}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// connect opens a connection through the uncut link.
func (w *testLink) connect(t testing.TB) (node, hub net.Conn) {
	t.Helper()
	node, err := w.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	return node, <-w.hub
}

// received collects the data of a connection, and the error that ended it.
type received struct {
	mu   sync.Mutex
	data []byte
	err  error
}

func receive(t testing.TB, conn net.Conn) *received {
	h := &received{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			buffer := make([]byte, 100)
			n, err := conn.Read(buffer)
			h.mu.Lock()
			h.data, h.err = append(h.data, buffer[:n]...), err
			h.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { _ = conn.Close(); reading.Wait() })
	return h
}

func (h *received) sofar() (string, error) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.data), h.err
}

// The states of a connection.
const (
	open  = "open"
	ended = "ended"
)

func (h *received) want(t *testing.T, when, data, state string) {
	t.Helper()
	if got, err := h.sofar(); got != data || (state == ended) != (err != nil) {
		t.Errorf("%s: heard %q and %v, want %q and %s", when, got, err, data, state)
	}
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Errorf("say %q: %v", text, err)
	}
}

func TestAHeldLinkDeliversLater(t *testing.T) {
	for name, row := range map[string]struct {
		cut              partition.Condition
		fromNode, toNode bool // which directions carry data
	}{
		"both":      {partition.HoldBoth(), false, false},
		"from node": {partition.Condition{FromNode: partition.OneWay{Manner: partition.Hold}}, false, true},
		"to node":   {partition.Condition{ToNode: partition.OneWay{Manner: partition.Hold}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestLink(t)
				node, hub := w.connect(t)
				atNode, atHub := receive(t, node), receive(t, hub)
				send(t, node, "1")
				send(t, hub, "a")
				atHub.want(t, "whole", "1", open)
				atNode.want(t, "whole", "a", open)
				w.Set(row.cut)
				send(t, node, "2")
				send(t, hub, "b")
				got := func(now bool, before, after string) string {
					if now {
						return after
					}
					return before
				}
				atHub.want(t, "cut", got(row.fromNode, "1", "12"), open)
				atNode.want(t, "cut", got(row.toNode, "a", "ab"), open)
				w.Set(partition.Condition{})
				atHub.want(t, "healed", "12", open)
				atNode.want(t, "healed", "ab", open)
			})
		})
	}
}

// TestTheEndOfAConnectionIsHeldToo closes one side during a cut. The other side must not learn of
// it before the heal, not even by its own writes.
func TestTheEndOfAConnectionIsHeldToo(t *testing.T) {
	for name, cut := range map[string]partition.Condition{"both": partition.HoldBoth(), "one way": {FromNode: partition.OneWay{Manner: partition.Hold}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestLink(t)
				node, hub := w.connect(t)
				atHub := receive(t, hub)
				w.Set(cut)
				send(t, node, "last words")
				if err := node.Close(); err != nil {
					t.Fatal(err)
				}
				send(t, hub, "are you there?")
				atHub.want(t, "cut", "", open)
				w.Set(partition.Condition{})
				if _, err := atHub.sofar(); err == nil {
					t.Error("healed, and the hub has not heard that the node has hung up")
				}
			})
		})
	}
}

// TestDataBeforeCloseArrives closes one side right after a write. The data arrives, although that
// side can receive no more.
func TestDataBeforeCloseArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestLink(t)
		node, hub := w.connect(t)
		send(t, node, "last words")
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		send(t, hub, "are you there?")
		synctest.Wait()
		receive(t, hub).want(t, "the node has hung up", "last words", ended)
	})
}

func TestAResetLinkBreaksAndRefuses(t *testing.T) {
	for name, cut := range map[string]partition.Condition{"both": partition.ResetBoth(), "one way": {ToNode: partition.OneWay{Manner: partition.Reset}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestLink(t)
				node, hub := w.connect(t)
				atNode, atHub := receive(t, node), receive(t, hub)
				w.Set(partition.HoldBoth())
				send(t, node, "held")
				w.Set(cut)
				atNode.want(t, "cut", "", ended)
				atHub.want(t, "cut", "", ended)
				node, err := w.InProcessConn()
				if err != nil {
					t.Fatal(err)
				}
				receive(t, node).want(t, "refused", "", ended)
				if w.dials.Load() != 1 {
					t.Error("a connection through a link that is cut has reached the hub")
				}
				w.Set(partition.Condition{})
				node, hub = w.connect(t)
				atHub = receive(t, hub)
				send(t, node, "again")
				atHub.want(t, "healed", "again", open)
			})
		})
	}
}

// TestAbandonedConnectionsAreDropped connects a hundred times during a cut, as a retrying client
// does. Only the connection still open at the end gets through.
func TestAbandonedConnectionsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestLink(t)
		w.Set(partition.HoldBoth())
		for i := range 100 {
			node, err := w.InProcessConn()
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				send(t, node, "anyone?")
			}
			synctest.Wait()
			if err := node.Close(); err != nil {
				t.Fatal(err)
			}
		}
		patient, err := w.InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		atNode := receive(t, patient)
		send(t, patient, "hello")
		atNode.want(t, "cut", "", open)
		w.Set(partition.Condition{})
		synctest.Wait()
		// Connections with data had sent their packets; only silent ones were dropped.
		if got := w.dials.Load(); got > 51 {
			t.Errorf("%d connections reached the hub", got)
		}
		var all bytes.Buffer
		for len(w.hub) > 0 {
			hub := <-w.hub
			text, err := receive(t, hub).sofar()
			if err == nil {
				all.WriteString(text)
				send(t, hub, "hi")
			}
		}
		if all.String() != "hello" {
			t.Errorf("the hub has heard %q from those who are still there", &all)
		}
		atNode.want(t, "healed", "hi", open)
	})
}

// step is a cut, or data sent by the node or by the hub.
type step struct {
	cut      *partition.Condition
	fromNode bool
	data     []byte
}

func drawStep(t *rapid.T) step {
	manner := rapid.SampledFrom([]partition.Manner{"", partition.Hold})
	if rapid.Bool().Draw(t, "cut") {
		return step{cut: &partition.Condition{FromNode: partition.OneWay{Manner: manner.Draw(t, "from")}, ToNode: partition.OneWay{Manner: manner.Draw(t, "to")}}}
	}
	return step{fromNode: rapid.Bool().Draw(t, "who"), data: rapid.SliceOfN(rapid.Byte(), 1, 40_000).Draw(t, "data")}
}

// TestNoCutLosesOrChangesBytes draws cuts that hold data, and data sent by both sides meanwhile.
func TestNoCutLosesOrChangesBytes(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 30).Draw(draw, "steps")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = runSteps(t, steps) })
		if wrong != "" {
			draw.Fatal(wrong)
		}
	})
}

// runSteps returns what is wrong with a link after the steps.
func runSteps(t *testing.T, steps []step) string {
	t.Helper()
	w := newTestLink(t)
	node, hub := w.connect(t)
	got := map[bool]*received{true: receive(t, hub), false: receive(t, node)}
	sent, queue := map[bool][]byte{}, map[bool]chan []byte{}
	var writing sync.WaitGroup
	for from, conn := range map[bool]net.Conn{true: node, false: hub} {
		queue[from] = make(chan []byte, len(steps))
		writing.Go(func() {
			for data := range queue[from] {
				if _, err := conn.Write(data); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	for i, step := range append(steps, step{cut: &partition.Condition{}}) {
		if step.cut != nil {
			w.Set(*step.cut)
		} else {
			sent[step.fromNode] = append(sent[step.fromNode], step.data...)
			queue[step.fromNode] <- step.data
		}
		for from, heard := range got {
			data, err := heard.sofar()
			if err != nil || !strings.HasPrefix(string(sent[from]), data) {
				return fmt.Sprintf("step %d: from the node: %v: heard something else than was said, or %v", i, from, err)
			}
			if w.Condition().IsHealthy() && len(data) != len(sent[from]) {
				return fmt.Sprintf("step %d: from the node: %v: a whole link has delivered %d of %d bytes", i, from, len(data), len(sent[from]))
			}
		}
	}
	for _, lines := range queue {
		close(lines)
	}
	writing.Wait()
	return ""
}

// TestACutNodeComesBack cuts a node so long that both sides have given up the connection.
func TestACutNodeComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := carrier.StartServer(t.Context(), carrier.ServerConfig{Port: carrier.InProcessOnly})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		serve(t, dial(t, carrier.Config{InProcess: server.InProcessConn, Identity: proto.APIServer}))
		link := bus.NewLink(bus.LinkConfig{Member: "n1", Dial: func(context.Context) (net.Conn, error) { return server.InProcessConn() }})
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var running sync.WaitGroup
		running.Go(func() { _ = link.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		node := dial(t, carrier.Config{InProcess: link.InProcessConn, Identity: proto.Node("n1")})
		awaitEcho(t, node)
		subject := proto.APISubject{Identity: node.Identity(), Verb: proto.VerbGet, Resource: "pods"}.String()
		for _, cut := range []partition.Condition{partition.HoldBoth(), {FromNode: partition.OneWay{Manner: partition.Hold}}, {ToNode: partition.OneWay{Manner: partition.Hold}}, {FromNode: partition.OneWay{Manner: partition.Reset}}} {
			link.Set(cut)
			limited, stop := context.WithTimeout(t.Context(), 20*time.Second)
			if _, err := node.Request(limited, proto.APIServer, subject, nil); err == nil {
				t.Errorf("%+v: answered", cut)
			}
			stop()
			time.Sleep(5 * time.Minute)
			if node.Connected() {
				t.Errorf("%+v: connected after five minutes", cut)
			}
			link.Set(partition.Condition{})
			for !node.Connected() {
				<-node.Changes()
			}
			if _, err := node.Request(bounded(t), proto.APIServer, subject, nil); errors.Is(err, carrier.ErrDisconnected) {
				t.Errorf("%+v: healed, and %v", cut, err)
			}
			awaitEcho(t, node)
		}
	})
}
