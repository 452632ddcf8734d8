package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/partition"
)

// connection is one connection that a link carries.
type connection struct {
	link *Link
	// parts are its goroutines. When they stop, both sides are closed.
	parts *daemon.Group
	// unwritable counts the directions with a closed destination.
	unwritable *atomic.Int32
}

// errUnwritable means that the destination of a direction has closed.
var errUnwritable = errors.New("the other side has ended")

// flow copies one direction in order until its source closes, and then closes the connection. The
// close passes the gate too, after the data. If the destination has closed, the other direction
// first carries its remaining data.
func (c connection) flow(ctx context.Context, to io.Writer, from io.Reader, way partition.Direction) error {
	err := c.copyDirect(ctx, to, from, way)
	if errors.Is(err, errUnwritable) && c.unwritable.Add(1) == 1 {
		return nil
	}
	c.parts.Stop() // a connection needs both directions
	return err
}

func (c connection) copyDirect(ctx context.Context, to io.Writer, from io.Reader, way partition.Direction) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if condition := c.link.Condition(); condition.Manner(way) != partition.Carry || condition.In(way).IsSlow() {
			return c.spool(ctx, to, from, way, c.newPacket(buffer[:n], err))
		}
		if done, err := c.deliver(ctx, to, way, packet{data: buffer[:n], err: err}); done || err != nil {
			return err
		}
	}
}

// packet is the result of one read, and its time.
type packet struct {
	data []byte
	err  error
	at   time.Time
}

func (c connection) newPacket(data []byte, err error) packet {
	return packet{bytes.Clone(data), err, c.link.Clock.Steady()}
}

// deliver writes a packet. done means that the source has closed.
func (c connection) deliver(ctx context.Context, to io.Writer, way partition.Direction, p packet) (done bool, err error) {
	if err := c.link.gate(ctx, way); err != nil {
		return false, err
	}
	if len(p.data) > 0 {
		if _, err := to.Write(p.data); err != nil {
			return false, fmt.Errorf("%w: %w", errUnwritable, err)
		}
	}
	if p.err == nil {
		return false, nil
	}
	if errors.Is(p.err, io.EOF) {
		return true, nil
	}
	return false, fmt.Errorf("carry from one side: %w", p.err)
}

// spool carries the rest of a delayed connection. It reads ahead into a buffer, as a network does,
// so that senders do not block at once.
func (c connection) spool(ctx context.Context, to io.Writer, from io.Reader, way partition.Direction, first packet) error {
	packets := make(chan packet, maxSpooled)
	packets <- first
	c.parts.Go(func(ctx context.Context) error {
		buffer := make([]byte, chunk)
		for err := first.err; err == nil; {
			var n int
			n, err = from.Read(buffer)
			select {
			case packets <- c.newPacket(buffer[:n], err):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for nth := uint64(0); ; nth++ {
		select {
		case p := <-packets:
			if err := c.awaitDelay(ctx, way, nth, p.at); err != nil {
				return err
			}
			if done, err := c.trickle(ctx, to, way, p); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitDelay waits for the latency of a packet received at at. If the link's condition changes, the
// wait does too.
func (c connection) awaitDelay(ctx context.Context, way partition.Direction, nth uint64, at time.Time) error {
	return c.until(ctx, func(condition partition.Condition) time.Time {
		return at.Add(condition.In(way).Delay(c.link.Member, nth))
	})
}

// piecesPerSecond is how many pieces of data a narrow link carries per second.
const piecesPerSecond = 20

// trickle delivers a packet in pieces if the link's bandwidth is limited.
func (c connection) trickle(ctx context.Context, to io.Writer, way partition.Direction, p packet) (done bool, err error) {
	for {
		bandwidth := c.link.Condition().In(way).Bandwidth
		piece := max(bandwidth/piecesPerSecond, 1)
		if bandwidth == 0 || int64(len(p.data)) <= piece {
			piece = int64(len(p.data))
		}
		rest := p.data[piece:]
		last := packet{data: p.data[:piece]}
		if len(rest) == 0 {
			last.err = p.err
		}
		begun := c.link.Clock.Steady()
		if done, err := c.deliver(ctx, to, way, last); done || err != nil {
			return done, err
		}
		if err := c.until(ctx, func(condition partition.Condition) time.Time {
			return begun.Add(condition.In(way).TransmitTime(piece))
		}); err != nil || len(rest) == 0 {
			return false, err
		}
		p.data = rest
	}
}

// until waits for a cluster time that depends on the link's condition.
func (c connection) until(ctx context.Context, instant func(partition.Condition) time.Time) error {
	for {
		condition, changed := c.link.state()
		wait := instant(condition).Sub(c.link.Clock.Steady())
		if wait <= 0 {
			return nil
		}
		timer := c.link.Clock.Timer(wait)
		select {
		case <-timer.C:
			return nil
		case <-changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
