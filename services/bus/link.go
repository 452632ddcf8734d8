package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
)

const (
	// chunk is how many bytes of a direction are under way inside a link.
	chunk = 16 << 10
	// spooled is how many chunks of a direction a cut keeps waiting at most.
	spooled = 1024
	// backlog is how many connections wait to be carried.
	backlog     = 64
	dialTimeout = 2 * time.Second
	acceptRetry = 50 * time.Millisecond
)

var (
	// errLinkFull means that a link is not running, or cannot keep up.
	errLinkFull = errors.New("the link takes no more connections")
	// errReset means that a cut has broken a connection.
	errReset = errors.New("the link is cut")
)

// Link is the path between one node and the hub. Whatever connects to it is connected
// to the hub, byte by byte, until either side ends it or Run returns.
//
// All bytes of a node pass through flow, once in each direction, and past its gate: this
// is where a link is cut, so that neither side can tell it from a real network.
type Link struct {
	node string
	dial func(context.Context) (net.Conn, error)
	log  *slog.Logger
	new  chan net.Conn

	mu  sync.Mutex
	cut Cut
	// changed is closed when cut is another.
	changed chan struct{}
}

// NewLink is a link that carries what connects to it over connections that dial opens.
// It carries nothing before Run.
func NewLink(node string, dial func(context.Context) (net.Conn, error), log *slog.Logger) *Link {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Link{node: node, dial: dial, log: log, new: make(chan net.Conn, backlog), changed: make(chan struct{})}
}

// Node is the name of the node.
func (l *Link) Node() string { return l.node }

// Cut makes the link carry no more than the cut lets it, from now on; the cut before it
// is over. Heal it.
func (l *Link) Cut(cut Cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	close(l.changed)
	l.changed = make(chan struct{})
}

// Heal ends a cut. Healing a whole link does nothing.
func (l *Link) Heal() { l.Cut(Cut{}) }

// IsCut is the cut in force.
func (l *Link) IsCut() Cut {
	cut, _ := l.state()
	return cut
}

// state is the cut in force, and what is closed when it is over.
func (l *Link) state() (Cut, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.changed
}

// gate lets something pass in a direction, now or when a cut has healed; errReset if
// the connection is to be broken instead.
func (l *Link) gate(ctx context.Context, way Direction) error {
	for {
		cut, changed := l.state()
		switch cut.decide(way) {
		case Carry:
			return nil
		case Reset:
			return errReset
		case Hold:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// InProcessConn opens a connection through the link without a socket, for a node in
// this process. Run carries it.
func (l *Link) InProcessConn() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.new <- far:
		return near, nil
	default:
		return nil, errors.Join(fmt.Errorf("link of node %s: %w", l.node, errLinkFull), near.Close(), far.Close())
	}
}

// Listen takes connections until ctx ends, and closes the listener. Run carries them.
func (l *Link) Listen(ctx context.Context, listener net.Listener) error {
	return daemon.Run(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return listener.Close()
	}, func(ctx context.Context) error {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil { // such as too many open files, which may pass
				l.log.WarnContext(ctx, "link could not accept", "node", l.node, "error", err)
				if err := (clock.Clock{}).Sleep(ctx, acceptRetry); err != nil {
					return err
				}
				continue
			}
			select {
			case l.new <- conn:
			case <-ctx.Done():
				return conn.Close()
			}
		}
	})
}

// Run carries connections until ctx ends, and returns when all are closed.
func (l *Link) Run(ctx context.Context) error {
	carried := daemon.NewGroup(ctx)
	for {
		select {
		case near := <-l.new:
			carried.Go(func(ctx context.Context) error {
				l.carry(ctx, near)
				return nil
			})
			continue
		case <-ctx.Done():
		}
		break
	}
	err := carried.Wait()
	for {
		select {
		case near := <-l.new:
			err = errors.Join(err, near.Close())
		default:
			return err
		}
	}
}

// carry connects near to the hub until either ends.
func (l *Link) carry(ctx context.Context, near net.Conn) {
	first, err := l.admit(ctx, near)
	var far net.Conn
	if err == nil {
		far, err = l.dial(ctx)
	}
	if err != nil {
		l.log.InfoContext(ctx, "link does not reach the hub", "node", l.node, "error", err)
		_ = near.Close() // the node sees an end, and tries again
		return
	}
	c := connection{link: l, parts: daemon.NewGroup(ctx)}
	c.parts.Go(func(ctx context.Context) error { return c.flow(ctx, far, io.MultiReader(first, near), FromNode) })
	c.parts.Go(func(ctx context.Context) error { return c.flow(ctx, near, far, ToNode) })
	c.parts.Go(l.reset)
	c.parts.Go(func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(near.Close(), far.Close())
	})
	err = c.parts.Wait()
	l.log.DebugContext(ctx, "link connection ended", "node", l.node, "error", err)
}

// reset waits for a cut that breaks connections.
func (l *Link) reset(ctx context.Context) error {
	for {
		cut, changed := l.state()
		if cut.decide(FromNode) == Reset {
			return errReset
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admit holds a new connection up while the hub cannot hear of it, and gives it up when
// the node does, so that no cut ends with a crowd at the hub. It returns what the node
// has said meanwhile.
func (l *Link) admit(ctx context.Context, near net.Conn) (first io.Reader, err error) {
	if l.IsCut().decide(FromNode) == Carry {
		return bytes.NewReader(nil), nil
	}
	said := make([]byte, chunk)
	n := 0
	err = daemon.Run(ctx, func(ctx context.Context) error {
		err := l.gate(ctx, FromNode)
		// The reader is to stop, and what it has read is kept.
		return errors.Join(err, near.SetReadDeadline(time.Unix(1, 0)))
	}, func(ctx context.Context) error {
		var err error
		if n, err = near.Read(said); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
			return l.gate(ctx, FromNode)
		}
		return err // the node has hung up
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return bytes.NewReader(said[:n]), near.SetReadDeadline(time.Time{})
}
