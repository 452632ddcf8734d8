package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
)

const (
	// chunk is how many bytes of a direction are under way inside a link.
	chunk = 16 << 10
	// backlog is how many connections wait to be carried.
	backlog     = 64
	dialTimeout = 2 * time.Second
	acceptRetry = 50 * time.Millisecond
)

// errLinkFull means that a link is not running, or cannot keep up.
var errLinkFull = errors.New("the link takes no more connections")

// Link is the path between one node and the hub. Whatever connects to it is connected
// to the hub, byte by byte, until either side ends it or Run returns.
//
// All bytes of a node pass through flow, once in each direction: this is where a link
// is cut, held or slowed down, so that neither side can tell it from a real network.
type Link struct {
	node string
	dial func(context.Context) (net.Conn, error)
	log  *slog.Logger
	new  chan net.Conn
}

// NewLink is a link that carries what connects to it over connections that dial opens.
// It carries nothing before Run.
func NewLink(node string, dial func(context.Context) (net.Conn, error), log *slog.Logger) *Link {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Link{node: node, dial: dial, log: log, new: make(chan net.Conn, backlog)}
}

// Node is the name of the node.
func (l *Link) Node() string { return l.node }

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
	far, err := l.dial(ctx)
	if err != nil {
		l.log.WarnContext(ctx, "link cannot reach the hub", "node", l.node, "error", err)
		_ = near.Close() // the node sees an end, and tries again
		return
	}
	err = daemon.Run(
		ctx,
		func(context.Context) error { return l.flow(far, near) },
		func(context.Context) error { return l.flow(near, far) },
		func(ctx context.Context) error {
			<-ctx.Done()
			return errors.Join(near.Close(), far.Close())
		},
	)
	l.log.DebugContext(ctx, "link connection ended", "node", l.node, "error", err)
}

// flow moves the bytes of one direction, in order, until its source or its destination
// ends.
func (l *Link) flow(to io.Writer, from io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return fmt.Errorf("carry to the other side: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("carry from one side: %w", err)
		}
	}
}
