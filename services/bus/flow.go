package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/podfall/podfall/internal/daemon"
)

// connection is one that a link carries.
type connection struct {
	link *Link
	// parts are its goroutines; their end closes it on both sides.
	parts *daemon.Group
}

// flow moves the bytes of one direction, in order, until its source or its destination
// ends. The news of an end passes the gate too: it travels with the bytes if the source
// has ended, and against them if the destination has.
func (c connection) flow(ctx context.Context, to io.Writer, from io.Reader, way Direction) error {
	defer c.parts.Stop() // one direction is no connection
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if c.link.IsCut().decide(way) != Carry {
			return c.spool(ctx, to, from, way, packet{bytes.Clone(buffer[:n]), err})
		}
		if done, err := c.deliver(ctx, to, way, packet{buffer[:n], err}); done || err != nil {
			return err
		}
	}
}

// packet is what one read has brought.
type packet struct {
	data []byte
	err  error
}

// deliver writes what a read has brought. Done means that the source has ended.
func (c connection) deliver(ctx context.Context, to io.Writer, way Direction, p packet) (done bool, err error) {
	if err := c.link.gate(ctx, way); err != nil {
		return false, err
	}
	if len(p.data) > 0 {
		if _, err := to.Write(p.data); err != nil {
			return false, errors.Join(c.link.gate(ctx, way.back()), fmt.Errorf("carry to the other side: %w", err))
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

// spool is flow for the rest of a connection that was cut while something was under way:
// it goes on reading, as the buffers of a network do, so that a sender is not held up at
// once.
func (c connection) spool(ctx context.Context, to io.Writer, from io.Reader, way Direction, first packet) error {
	packets := make(chan packet, spooled)
	packets <- first
	c.parts.Go(func(ctx context.Context) error {
		buffer := make([]byte, chunk)
		for err := first.err; err == nil; {
			var n int
			n, err = from.Read(buffer)
			select {
			case packets <- packet{bytes.Clone(buffer[:n]), err}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for {
		select {
		case p := <-packets:
			if done, err := c.deliver(ctx, to, way, p); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
