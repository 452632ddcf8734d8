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
	"sync/atomic"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/partition"
)

const (
	// chunk is the buffer size in bytes of one direction of a link.
	chunk = 16 << 10
	// maxSpooled bounds the chunks that a cut direction buffers.
	maxSpooled = 1024
	// backlog is how many connections may wait for Run.
	backlog     = 64
	dialTimeout = 2 * time.Second
	acceptRetry = 50 * time.Millisecond
)

var (
	// errLinkFull means that a link is not running, or cannot keep up.
	errLinkFull = errors.New("the link takes no more connections")
	// errReset means that a cut has reset a connection.
	errReset = errors.New("the link is cut")
)

// Link is the network path between one member, for example a node, and the hub. It connects each
// connection of the member to the hub, byte by byte, until either side closes it or Run returns.
//
// All bytes of a member pass through flow, once in each direction, and wait at its gate. A cut
// closes the gate, so that neither side can tell it from a real network failure.
type Link struct {
	LinkConfig
	new chan net.Conn

	mu        sync.Mutex
	condition partition.Condition
	// silent describes the directions that carry nothing since `since`.
	silent string
	since  time.Time
	// changed is closed when the condition changes.
	changed chan struct{}
}

// LinkConfig configures a Link.
type LinkConfig struct {
	// Member is the name of the member behind the link.
	Member string
	// Dial opens a connection to the hub.
	Dial func(context.Context) (net.Conn, error)
	// Clock is used for latency and bandwidth.
	Clock clock.Clock
	// Log may be nil.
	Log *slog.Logger
}

// NewLink returns an uncut link. It carries nothing before Run.
func NewLink(cfg LinkConfig) *Link {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Link{LinkConfig: cfg, new: make(chan net.Conn, backlog), changed: make(chan struct{})}
}

// Set changes what the link carries from now on.
func (l *Link) Set(condition partition.Condition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.condition == condition {
		return
	}
	l.condition = condition
	if silent := silentDirections(condition); silent != l.silent {
		l.silent, l.since = silent, l.Clock.Steady()
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Condition returns the current condition.
func (l *Link) Condition() partition.Condition {
	condition, _ := l.state()
	return condition
}

// state returns the current condition, and a channel that is closed when it changes.
func (l *Link) state() (partition.Condition, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.condition, l.changed
}

// gate blocks while the direction is held, and returns nil once it may carry data. It returns
// errReset if the connection must be closed instead.
func (l *Link) gate(ctx context.Context, way partition.Direction) error {
	for {
		condition, changed := l.state()
		switch condition.Manner(way) {
		case partition.Carry:
			return nil
		case partition.Reset:
			return errReset
		case partition.Hold:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// InProcessConn opens a connection through the link without a socket, for a member in this process.
// Run carries it.
func (l *Link) InProcessConn() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.new <- far:
		return near, nil
	default:
		return nil, errors.Join(fmt.Errorf("link of %s: %w", l.Member, errLinkFull), near.Close(), far.Close())
	}
}

// Listen accepts connections until ctx ends, and closes the listener. Run carries them.
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
			if err != nil { // for example too many open files, which may pass
				l.Log.WarnContext(ctx, "link could not accept", "party", l.Member, "error", err)
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

// carry connects near to the hub until either side closes.
func (l *Link) carry(ctx context.Context, near net.Conn) {
	first, err := l.admit(ctx, near)
	var far net.Conn
	if err == nil {
		far, err = l.Dial(ctx)
	}
	if err != nil {
		l.Log.InfoContext(ctx, "link does not reach the hub", "party", l.Member, "error", err)
		_ = near.Close() // the member sees the end and reconnects
		return
	}
	c := connection{link: l, parts: daemon.NewGroup(ctx), unwritable: &atomic.Int32{}}
	c.parts.Go(func(ctx context.Context) error {
		return c.flow(ctx, far, io.MultiReader(first, near), partition.FromNode)
	})
	c.parts.Go(func(ctx context.Context) error { return c.flow(ctx, near, far, partition.ToNode) })
	c.parts.Go(l.awaitReset)
	c.parts.Go(func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(near.Close(), far.Close())
	})
	err = c.parts.Wait()
	l.Log.DebugContext(ctx, "link connection ended", "party", l.Member, "error", err)
}

// awaitReset returns errReset when a cut resets connections.
func (l *Link) awaitReset(ctx context.Context) error {
	for {
		condition, changed := l.state()
		if condition.Manner(partition.FromNode) == partition.Reset {
			return errReset
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admit delays a new connection while its data cannot reach the hub, and drops it if the member
// closes it. So the end of a cut does not flood the hub with stale connections. admit returns the
// data received meanwhile.
func (l *Link) admit(ctx context.Context, near net.Conn) (first io.Reader, err error) {
	if l.Condition().Manner(partition.FromNode) == partition.Carry {
		return bytes.NewReader(nil), nil
	}
	data := make([]byte, chunk)
	n := 0
	err = daemon.Run(ctx, func(ctx context.Context) error {
		err := l.gate(ctx, partition.FromNode)
		// Stop the reader and keep what it has read.
		return errors.Join(err, near.SetReadDeadline(time.Unix(1, 0)))
	}, func(ctx context.Context) error {
		var err error
		if n, err = near.Read(data); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
			return l.gate(ctx, partition.FromNode)
		}
		return err // the member has closed the connection
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return bytes.NewReader(data[:n]), near.SetReadDeadline(time.Time{})
}
