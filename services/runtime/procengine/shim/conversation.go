package shim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// Conversation is a runtime's end of a conversation with a process; it implements remote.Conn. The
// caller must close it. The shim kills a command when its client disconnects.
type Conversation struct {
	conn    net.Conn
	out     *json.Encoder
	in      chan []byte
	done    chan struct{}
	closing chan struct{}
	reading sync.WaitGroup
	// err is the reason once done is closed.
	err error
}

// Converse starts a conversation with the shim of the container in dir.
func Converse(ctx context.Context, dir string, asked Stream) (*Conversation, error) {
	conn, _, err := Dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := &Conversation{
		conn: conn.conn, out: conn.out, in: make(chan []byte), done: make(chan struct{}), closing: make(chan struct{}),
	}
	if err := c.out.Encode(message{Stream: &asked}); err != nil {
		return nil, errors.Join(errGone, err, c.conn.Close())
	}
	c.reading.Go(func() { c.readFrames(conn.in) })
	return c, nil
}

// readFrames receives frames until the shim has sent the last.
func (c *Conversation) readFrames(in *json.Decoder) {
	defer close(c.done)
	for {
		var m message
		if in.Decode(&m) != nil {
			c.err = cmp.Or(c.err, errGone)
			return
		}
		switch {
		case m.Error != "":
			c.err = errors.New(m.Error)
			return
		case len(m.Frame) == 0:
			continue // the container's status, which every new connection gets
		case proto.Channel(m.Frame[0]) == proto.ChannelError:
			c.err = io.EOF // the last frame
		}
		select {
		case c.in <- m.Frame:
		case <-c.closing:
			return
		}
	}
}

// Send implements remote.Conn. It blocks while the process does not read.
func (c *Conversation) Send(ctx context.Context, frame []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetWriteDeadline(clock.Clock{}.Now()) })
	defer stop()
	return c.out.Encode(message{Frame: frame})
}

// Receive implements remote.Conn.
func (c *Conversation) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-c.in:
		return frame, nil
	case <-c.done:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done implements remote.Conn.
func (c *Conversation) Done() <-chan struct{} { return c.done }

// Close ends the conversation and kills the command that was run for it.
func (c *Conversation) Close() {
	close(c.closing)
	_ = c.conn.Close() // nothing is left to send
	c.reading.Wait()
}
