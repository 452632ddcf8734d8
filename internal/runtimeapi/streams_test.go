package runtimeapi_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

// Stream echoes its input until it gets the command to end.
func (f fake) Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error {
	if err := f.do(ctx, "Stream "+req.ContainerId); err != nil {
		return err
	}
	if err := remote.Offer(ctx, client); err != nil {
		return err
	}
	for {
		frame, err := client.Receive(ctx)
		if err != nil {
			return err
		}
		_, data, err := proto.ParseStreamFrame(frame)
		switch {
		case err != nil:
			return err
		case string(data) == "exit":
			return remote.SendStatus(ctx, client, proto.ExitStatus(3))
		}
		if err := client.Send(ctx, proto.StreamFrame(proto.ChannelStdout, data)); err != nil {
			return err
		}
	}
}

// streamSide is one side of a stream in this process.
type streamSide struct {
	in, out chan []byte
	left    chan struct{}
}

func (s streamSide) Send(ctx context.Context, frame []byte) error {
	select {
	case s.out <- frame:
		return nil
	case <-s.left:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s streamSide) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-s.in:
		return frame, nil
	case <-s.left:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s streamSide) Done() <-chan struct{} { return s.left }

// TestStream: a stream crosses the node bus both ways, a refusal arrives as a Status, and when the
// client or the runtime ends, the other side ends too.
func TestStream(t *testing.T) {
	for name, row := range map[string]struct {
		refusal error
		say     string
		end     func(n *node, client streamSide)
		want    string // the last frame
	}{
		"it exits":          {say: "exit", want: "command terminated with exit code 3"},
		"it is refused":     {refusal: errors.New("no"), want: "error executing command in container: rpc error: code = Unknown desc = no"},
		"it is scripted":    {refusal: &proto.RuntimeError{Code: proto.CodeUnimplemented, Desc: "it is scripted"}, want: `"code":501`},
		"the client leaves": {end: func(_ *node, client streamSide) { close(client.left) }},
		"the runtime stops": {end: func(n *node, _ streamSide) { n.stop() }, want: "the container runtime is stopping"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := startNode(t, func(context.Context, string) error { return row.refusal })
				left := make(chan struct{})
				client := streamSide{make(chan []byte, 9), make(chan []byte, 9), left}
				process := streamSide{client.out, client.in, left}
				ended := make(chan error, 1)
				go func() {
					ended <- n.client.Stream(t.Context(), &proto.ContainerStreamRequest{ContainerId: "c1"}, process)
				}()
				if row.refusal == nil {
					if err := remote.AwaitOffer(t.Context(), client); err != nil {
						t.Fatal(err)
					}
					for _, text := range []string{"", "hello"} {
						if err := client.Send(t.Context(), proto.StreamFrame(proto.ChannelStdin, []byte(text))); err != nil {
							t.Fatal(err)
						}
					}
					if frame, err := client.Receive(t.Context()); err != nil || string(frame) != "\x01hello" {
						t.Fatalf("the echo is %q, %v", frame, err)
					}
				}
				if row.say != "" {
					_ = client.Send(t.Context(), proto.StreamFrame(proto.ChannelStdin, []byte(row.say)))
				}
				if row.end != nil {
					row.end(n, client)
				}
				if err := <-ended; err != nil {
					t.Errorf("Stream: %v", err)
				}
				if row.want == "" {
					return
				}
				if frame, err := client.Receive(t.Context()); err != nil || !strings.Contains(string(frame), row.want) {
					t.Errorf("the last frame is %q, %v; want %q", frame, err, row.want)
				}
			})
		})
	}
}
