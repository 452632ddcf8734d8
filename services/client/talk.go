package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
)

// Terminal is the terminal at standard input.
type Terminal interface {
	// Raw makes it pass on every key as it is pressed, until restore is called.
	Raw() (restore func(), err error)
	// Size is its size now.
	Size() (proto.TerminalSize, error)
	// Resized tells of each change of its size, until stop is called.
	Resized() (changes <-chan os.Signal, stop func())
}

// Conversation is a client's end of exec or attach. Close ends what was run for it.
type Conversation interface {
	remote.Conn
	Close()
}

// endedError is how a command in a container has ended, and with it this one.
type endedError int32

// Error implements error, in kubectl's words.
func (e endedError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", int32(e))
}

// talk is a conversation with a process.
type talk struct {
	*call
	verb    string
	node    string
	request proto.StreamRequest
}

// setUp finds out whether a terminal is passed on, if one is wanted.
func (t *talk) setUp(tty bool) { //nolint:revive // the user's wish
	if !tty || !t.request.Stdin {
		return
	}
	if t.env.Terminal == nil {
		if !t.flags.Bool(flagQuiet) {
			terminal.Printf(t.stderr, "Unable to use a TTY - input is not a terminal or the right kind of file\n")
		}
		return
	}
	t.request.TTY, t.request.Stderr = true, false
}

// run talks until the process has ended, and returns how: an endedError, or why nobody knows.
func (t *talk) run(ctx context.Context) error {
	if t.node == "" {
		return fmt.Errorf("unable to upgrade connection: pod %s does not have a host assigned", t.request.Pod)
	}
	body, err := json.Marshal(t.request)
	if err != nil {
		return err
	}
	server, err := t.session.Nodes.Open(ctx, t.node, t.verb, body)
	if err != nil {
		return fmt.Errorf("error dialing backend: node %s does not answer: %w", t.node, err)
	}
	defer server.Close()
	if err := remote.AwaitOffer(ctx, server); err != nil {
		return notUpgraded(err)
	}
	if t.request.TTY {
		restore, err := t.env.Terminal.Raw()
		if err != nil {
			return err
		}
		defer restore()
	}
	if err := remote.AcceptOffer(ctx, server); err != nil {
		return err
	}
	parts := []func(context.Context) error{func(ctx context.Context) error { return t.listen(ctx, server) }}
	if t.request.Stdin {
		chunks := make(chan []byte)
		parts = append(parts,
			func(ctx context.Context) error { return t.read(ctx, chunks) },
			func(ctx context.Context) error { return t.speak(ctx, server, chunks) },
		)
	}
	if err := daemon.Run(ctx, parts...); err != nil {
		return err
	}
	return ctx.Err()
}

// listen prints what the process writes until it has ended.
func (t *talk) listen(ctx context.Context, server remote.Conn) error {
	for {
		frame, err := server.Receive(ctx)
		if err != nil {
			return fmt.Errorf("the connection to node %s broke: %w", t.node, err)
		}
		channel, data, err := proto.ParseStreamFrame(frame)
		if err != nil {
			return err
		}
		switch channel {
		case proto.ChannelStdout:
			_, err = t.env.Stdout.Write(data)
		case proto.ChannelStderr:
			_, err = t.env.Stderr.Write(data)
		case proto.ChannelError:
			return ending(data)
		case proto.ChannelStdin, proto.ChannelResize, proto.ChannelClose:
		}
		if err != nil {
			return err
		}
	}
}

// ending is the error that the last frame says.
func ending(data []byte) error {
	status, err := remote.ParseStatus(data)
	if err != nil {
		return err
	}
	switch code, told := proto.ExitCode(status); {
	case !told:
		return errors.New(status.Message)
	case code != 0:
		return endedError(code)
	}
	return nil
}

// read reads standard input until its end, and then waits for that of the conversation.
func (t *talk) read(ctx context.Context, chunks chan<- []byte) error {
	if input, ok := t.env.Stdin.(interface{ SetReadDeadline(at time.Time) error }); ok {
		stop := context.AfterFunc(ctx, func() { _ = input.SetReadDeadline(clock.Clock{}.Now()) })
		defer stop()
	}
	for {
		chunk := make([]byte, proto.MaxStreamFrame)
		n, err := t.env.Stdin.Read(chunk)
		if n > 0 {
			select {
			case chunks <- chunk[:n]:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			close(chunks)
			<-ctx.Done()
			return ctx.Err()
		}
	}
}

// speak passes on what is read from standard input, its end, and the terminal's size.
func (t *talk) speak(ctx context.Context, server remote.Conn, chunks <-chan []byte) error {
	var changes <-chan os.Signal
	frame := t.size()
	if t.request.TTY {
		resized, stop := t.env.Terminal.Resized()
		defer stop()
		changes = resized
	}
	for {
		if frame != nil && server.Send(ctx, frame) != nil {
			<-ctx.Done() // listen says how it ended
			return ctx.Err()
		}
		select {
		case chunk, more := <-chunks:
			if frame = proto.StreamFrame(proto.ChannelStdin, chunk); !more {
				frame, chunks = proto.StreamFrame(proto.ChannelClose, []byte{byte(proto.ChannelStdin)}), nil
			}
		case <-changes:
			frame = t.size()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// size is the frame that tells the terminal's size; nil when there is none to tell.
func (t *talk) size() []byte {
	if !t.request.TTY {
		return nil
	}
	size, err := t.env.Terminal.Size()
	if err != nil {
		return nil
	}
	data, err := json.Marshal(size)
	if err != nil {
		return nil
	}
	return proto.StreamFrame(proto.ChannelResize, data)
}
