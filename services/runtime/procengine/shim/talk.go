package shim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

const (
	// farewell is how long what is left to say may take, once the program has ended.
	farewell = time.Second
	// stuck is after how long a process that reads nothing makes the shim look whether its
	// client is still there.
	stuck = time.Second
	// endOfTransmission is what a terminal takes for the end of its input.
	endOfTransmission = 4
)

// talk is a conversation with a process, on a connection of its own that ends with it.
type talk struct {
	peer *peer
	in   *json.Decoder
	// input is what the process reads, and terminal its terminal; nil for none.
	input, terminal *os.File
	// shared means that others talk with the process, too: its input ends with none of them.
	shared bool
}

// converse lets a peer talk with a command of its own, or with the program.
func (s *shim) converse(ctx context.Context, p *peer, in *json.Decoder, asked Stream) {
	s.peers.talk(p)
	t := &talk{peer: p, in: in}
	if p.frame(proto.StreamFrame(proto.ChannelStdout, nil)) != nil {
		return
	}
	var begin message
	if in.Decode(&begin) != nil {
		return
	}
	var err error
	if asked.Command == nil {
		err = s.attach(t, asked)
	} else {
		err = s.exec(ctx, t, asked)
	}
	if err != nil {
		p.send(message{Error: err.Error()})
	}
}

// exec runs a command for a client, and kills it when the client leaves.
func (s *shim) exec(ctx context.Context, t *talk, asked Stream) error {
	c := &command{program: asked.Command.Program, ended: make(chan struct{})}
	err := errEnded
	s.ask(ctx, nil, func() {
		if s.status.FinishedAt.IsZero() {
			err = s.executeFor(t, c, asked)
		}
	})
	if err != nil {
		return err
	}
	t.listen()
	s.ask(ctx, c.ended, func() {
		if s.commands[c.process.Pid] == c {
			killSession(c.process.Pid)
		}
	})
	<-c.ended
	return nil
}

// ask lets the shim's goroutine do something, and waits until it has; in vain once
// everything has ended, or unless is closed.
func (s *shim) ask(ctx context.Context, unless <-chan struct{}, do func()) {
	done := make(chan struct{})
	select {
	case s.requests <- request{do: func() { do(); close(done) }}:
		<-done
	case <-unless:
	case <-ctx.Done():
	}
}

// executeFor starts a command for a client, in the shim's goroutine.
func (s *shim) executeFor(t *talk, c *command, asked Stream) error {
	files, err := openStdio(asked.Stdin, asked.TTY, s.spec.User)
	if err != nil {
		return err
	}
	plan := s.beside(asked.Command.Program, asked.Command.Args)
	if plan.Terminal = asked.TTY; asked.TTY && !slices.ContainsFunc(plan.Env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
		plan.Env = append(slices.Clone(plan.Env), "TERM=xterm")
	}
	if c.process, err = s.launch(plan, files); err != nil {
		return err
	}
	_ = s.signals.journal.write(Record{Exec: c.program}) // as for those that nobody talks with
	s.commands[c.process.Pid] = c
	t.input, t.terminal = files.input, files.terminal
	s.output.Go(func() {
		t.tell(c, files)
		files.closeOurs()
		_ = t.peer.conn.Close() // the client has been told all
	})
	return nil
}

// tell passes on what a command writes, and how it has ended.
func (t *talk) tell(c *command, files stdio) {
	var pumping sync.WaitGroup
	for channel, from := range files.output {
		pumping.Go(func() { t.pump(channel, from) })
	}
	<-c.ended
	for _, from := range files.output {
		_ = from.SetReadDeadline(clock.Clock{}.Now().Add(drain))
	}
	pumping.Wait()
	_ = t.peer.frame(proto.StatusFrame(proto.ExitStatus(c.code))) // it may have left
}

// pump passes on what a command writes until nobody can write any more. What a command has
// left behind may write on; after its end that is waited for only a moment.
func (t *talk) pump(channel proto.Channel, from *os.File) {
	buffer := make([]byte, proto.MaxStreamFrame)
	gone := false
	for {
		n, err := from.Read(buffer)
		if n > 0 && !gone {
			gone = t.peer.frame(proto.StreamFrame(channel, buffer[:n])) != nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return // a terminal that nobody has any more fails, too
		}
		for text := range slices.Chunk(rest(from), proto.MaxStreamFrame) {
			gone = gone || t.peer.frame(proto.StreamFrame(channel, text)) != nil
		}
		return
	}
}

// listen takes in what the client says, until it has left or the conversation is over.
func (t *talk) listen() {
	for {
		var m message
		if t.in.Decode(&m) != nil {
			return
		}
		channel, data, err := proto.ParseStreamFrame(m.Frame)
		if err != nil {
			continue
		}
		switch channel {
		case proto.ChannelStdin:
			if !t.feed(data) {
				return
			}
		case proto.ChannelResize:
			resize(t.terminal, data)
		case proto.ChannelClose:
			if len(data) == 1 && proto.Channel(data[0]) == proto.ChannelStdin {
				t.endInput()
			}
		case proto.ChannelStdout, proto.ChannelStderr, proto.ChannelError:
		}
	}
}

// feed gives the process something to read; false when its client has left meanwhile. What
// it does not want to read is lost.
func (t *talk) feed(data []byte) bool {
	for t.input != nil && len(data) > 0 {
		_ = t.input.SetWriteDeadline(clock.Clock{}.Now().Add(stuck))
		n, err := t.input.Write(data)
		data = data[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
		if err != nil && hungUp(t.peer.conn) {
			return false
		}
	}
	return true
}

// endInput lets the process know that there is nothing more to read.
func (t *talk) endInput() {
	switch {
	case t.input == nil || t.shared:
	case t.input == t.terminal:
		t.feed([]byte{endOfTransmission})
	default:
		_ = t.input.Close()
	}
}

// hungUp reports whether the other side of a connection has left, whatever it has said.
func hungUp(conn net.Conn) bool {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		asked := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(asked, 0)
		left = err == nil && n > 0
	})
	return left || err != nil
}
