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
	// farewellTimeout bounds the remaining output once the program has ended.
	farewellTimeout = time.Second
	// inputTimeout is how long a process may read no input before the shim checks that its client
	// is still connected.
	inputTimeout = time.Second
	// endOfTransmission is the byte that ends a terminal's input.
	endOfTransmission = 4
)

// conversation is the shim's end of a conversation with a process, on its own connection.
type conversation struct {
	peer *peer
	in   *json.Decoder
	// input is our end of the process's stdin, terminal our end of its terminal; nil for none.
	input, terminal *os.File
	// shared means that other clients use the process too, so the input ends with none of them.
	shared bool
}

// serveConversation connects a peer with a new command, or with the program.
func (s *shim) serveConversation(ctx context.Context, p *peer, in *json.Decoder, asked Stream) {
	s.peers.startConversation(p)
	t := &conversation{peer: p, in: in}
	if p.sendFrame(proto.StreamFrame(proto.ChannelStdout, nil)) != nil {
		return
	}
	var begin message
	if in.Decode(&begin) != nil {
		return
	}
	var err error
	if asked.Command == nil {
		err = s.attachClient(t, asked)
	} else {
		err = s.execForClient(ctx, t, asked)
	}
	if err != nil {
		p.send(message{Error: err.Error()})
	}
}

// execForClient runs a command for a client, and kills it when the client disconnects.
func (s *shim) execForClient(ctx context.Context, t *conversation, asked Stream) error {
	c := &command{program: asked.Command.Program, ended: make(chan struct{})}
	err := errEnded
	s.doInRun(ctx, nil, func() {
		if s.status.FinishedAt.IsZero() {
			err = s.startCommandFor(t, c, asked)
		}
	})
	if err != nil {
		return err
	}
	t.readClient()
	s.doInRun(ctx, c.ended, func() {
		if s.commands[c.process.Pid] == c {
			killSession(c.process.Pid)
		}
	})
	<-c.ended
	return nil
}

// doInRun runs do in the shim's goroutine and waits for it. It gives up if ctx ends or unless is
// closed.
func (s *shim) doInRun(ctx context.Context, unless <-chan struct{}, do func()) {
	done := make(chan struct{})
	select {
	case s.requests <- request{do: func() { do(); close(done) }}:
		<-done
	case <-unless:
	case <-ctx.Done():
	}
}

// startCommandFor starts a client's command. It runs in the shim's goroutine.
func (s *shim) startCommandFor(t *conversation, c *command, asked Stream) error {
	files, err := openStdio(asked.Stdin, asked.TTY, s.spec.User)
	if err != nil {
		return err
	}
	plan := s.commandPlan(asked.Command.Program, asked.Command.Args)
	if plan.Terminal = asked.TTY; asked.TTY && !slices.ContainsFunc(plan.Env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
		plan.Env = append(slices.Clone(plan.Env), "TERM=xterm")
	}
	if c.process, err = s.launchProcess(plan, files); err != nil {
		return err
	}
	_ = s.signals.journal.append(Record{Exec: c.program}) // as in startCommand
	s.commands[c.process.Pid] = c
	t.input, t.terminal = files.input, files.terminal
	s.output.Go(func() {
		t.forwardOutput(c, files)
		files.closeOurs()
		_ = t.peer.conn.Close() // the client has received everything
	})
	return nil
}

// forwardOutput sends a command's output and its exit code.
func (t *conversation) forwardOutput(c *command, files stdio) {
	var pumping sync.WaitGroup
	for channel, from := range files.output {
		pumping.Go(func() { t.forwardChannel(channel, from) })
	}
	<-c.ended
	for _, from := range files.output {
		_ = from.SetReadDeadline(clock.Clock{}.Now().Add(drainTime))
	}
	pumping.Wait()
	_ = t.peer.sendFrame(proto.StatusFrame(proto.ExitStatus(c.code))) // it may have disconnected
}

// forwardChannel sends one channel of a command's output until all writers have closed it.
// Processes left behind by the command may still write; after the command's end, that is read only
// for drainTime.
func (t *conversation) forwardChannel(channel proto.Channel, from *os.File) {
	buffer := make([]byte, proto.MaxStreamFrame)
	gone := false
	for {
		n, err := from.Read(buffer)
		if n > 0 && !gone {
			gone = t.peer.sendFrame(proto.StreamFrame(channel, buffer[:n])) != nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return // a terminal without processes fails with an error too
		}
		for text := range slices.Chunk(readBuffered(from), proto.MaxStreamFrame) {
			gone = gone || t.peer.sendFrame(proto.StreamFrame(channel, text)) != nil
		}
		return
	}
}

// readClient handles the client's frames until it disconnects or the conversation is over.
func (t *conversation) readClient() {
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
			if !t.writeInput(data) {
				return
			}
		case proto.ChannelResize:
			resizeTerminal(t.terminal, data)
		case proto.ChannelClose:
			if len(data) == 1 && proto.Channel(data[0]) == proto.ChannelStdin {
				t.closeInput()
			}
		case proto.ChannelStdout, proto.ChannelStderr, proto.ChannelError:
		}
	}
}

// writeInput writes to the process's stdin. It returns false if the client has disconnected
// meanwhile. Data that the process does not read is lost.
func (t *conversation) writeInput(data []byte) bool {
	for t.input != nil && len(data) > 0 {
		_ = t.input.SetWriteDeadline(clock.Clock{}.Now().Add(inputTimeout))
		n, err := t.input.Write(data)
		data = data[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
		if err != nil && peerHungUp(t.peer.conn) {
			return false
		}
	}
	return true
}

// closeInput signals end of file on the process's stdin.
func (t *conversation) closeInput() {
	switch {
	case t.input == nil || t.shared:
	case t.input == t.terminal:
		t.writeInput([]byte{endOfTransmission})
	default:
		_ = t.input.Close()
	}
}

// peerHungUp reports whether the other side of a connection has disconnected, even if unread data
// is left.
func peerHungUp(conn net.Conn) bool {
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
