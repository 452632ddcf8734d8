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

// Link is the path between one party, such as a node, and the hub. Whatever connects to it
// is connected to the hub, byte by byte, until either side ends it or Run returns.
//
// All bytes of a party pass through flow, once in each direction, and past its gate: this
// is where a link is cut, so that neither side can tell it from a real network.
type Link struct {
	LinkConfig
	new chan net.Conn

	mu        sync.Mutex
	condition partition.Condition
	// silent is which direction carries nothing, in words, and since when.
	silent string
	since  time.Time
	// changed is closed when the condition is another.
	changed chan struct{}
}

// LinkConfig is what a Link works with.
type LinkConfig struct {
	// Party is whose link it is.
	Party string
	// Dial opens a connection to the hub.
	Dial func(context.Context) (net.Conn, error)
	// Clock measures how slow the link is.
	Clock clock.Clock
	// Log is nil for none.
	Log *slog.Logger
}

// NewLink is a whole link. It carries nothing before Run.
func NewLink(cfg LinkConfig) *Link {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Link{LinkConfig: cfg, new: make(chan net.Conn, backlog), changed: make(chan struct{})}
}

// Set makes the link carry no more than the condition lets it, from now on.
func (l *Link) Set(condition partition.Condition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.condition == condition {
		return
	}
	l.condition = condition
	if silent := silence(condition); silent != l.silent {
		l.silent, l.since = silent, l.Clock.Steady()
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Condition is the one in force.
func (l *Link) Condition() partition.Condition {
	condition, _ := l.state()
	return condition
}

// state is the condition in force, and what is closed when it is another.
func (l *Link) state() (partition.Condition, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.condition, l.changed
}

// gate lets something pass in a direction, now or when a cut has healed; errReset if
// the connection is to be broken instead.
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

// InProcessConn opens a connection through the link without a socket, for a party in
// this process. Run carries it.
func (l *Link) InProcessConn() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.new <- far:
		return near, nil
	default:
		return nil, errors.Join(fmt.Errorf("link of %s: %w", l.Party, errLinkFull), near.Close(), far.Close())
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
				l.Log.WarnContext(ctx, "link could not accept", "party", l.Party, "error", err)
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
		far, err = l.Dial(ctx)
	}
	if err != nil {
		l.Log.InfoContext(ctx, "link does not reach the hub", "party", l.Party, "error", err)
		_ = near.Close() // the party sees an end, and tries again
		return
	}
	c := connection{link: l, parts: daemon.NewGroup(ctx), unheard: &atomic.Int32{}}
	c.parts.Go(func(ctx context.Context) error {
		return c.flow(ctx, far, io.MultiReader(first, near), partition.FromNode)
	})
	c.parts.Go(func(ctx context.Context) error { return c.flow(ctx, near, far, partition.ToNode) })
	c.parts.Go(l.reset)
	c.parts.Go(func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(near.Close(), far.Close())
	})
	err = c.parts.Wait()
	l.Log.DebugContext(ctx, "link connection ended", "party", l.Party, "error", err)
}

// reset waits for a cut that breaks connections.
func (l *Link) reset(ctx context.Context) error {
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

// admit holds a new connection up while the hub cannot hear of it, and gives it up when
// the party does, so that no cut ends with a crowd at the hub. It returns what the party
// has said meanwhile.
func (l *Link) admit(ctx context.Context, near net.Conn) (first io.Reader, err error) {
	if l.Condition().Manner(partition.FromNode) == partition.Carry {
		return bytes.NewReader(nil), nil
	}
	said := make([]byte, chunk)
	n := 0
	err = daemon.Run(ctx, func(ctx context.Context) error {
		err := l.gate(ctx, partition.FromNode)
		// The reader is to stop, and what it has read is kept.
		return errors.Join(err, near.SetReadDeadline(time.Unix(1, 0)))
	}, func(ctx context.Context) error {
		var err error
		if n, err = near.Read(said); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
			return l.gate(ctx, partition.FromNode)
		}
		return err // the party has hung up
	})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return bytes.NewReader(said[:n]), near.SetReadDeadline(time.Time{})
}
