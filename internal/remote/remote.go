// Package remote is the protocol of exec and attach streams: what both sides send, and how
// intermediaries relay it.
//
//	client                                     the process's side
//	   | <-- offer: an empty frame of stdout ------ |   it could begin; nothing has yet
//	   | --- begin: an empty frame of stdin ------> |
//	   | <-- stdout, stderr ----------------------- |
//	   | --- stdin, resize, close ----------------> |
//	   | <-- a Status on the error channel -------- |   the last frame
//
// Instead of the offer, the first frame may be a Status with a refusal. So the client gets an
// answer before anything has happened. Package proto defines the frames.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
)

// Conn is one side of a stream; a *bus.Pipe is one. One goroutine at a time may Send, and one
// Receive.
type Conn interface {
	// Send sends a frame, and waits while the other side is behind.
	Send(ctx context.Context, frame []byte) error
	// Receive waits for a frame. It returns io.EOF if the other side has closed the stream
	// normally.
	Receive(ctx context.Context) ([]byte, error)
	// Done is closed when the stream has ended or broken; frames that arrived before can still be
	// received.
	Done() <-chan struct{}
}

// Offer offers the client to begin, and waits for the client to accept.
func Offer(ctx context.Context, client Conn) error {
	if err := client.Send(ctx, proto.StreamFrame(proto.ChannelStdout, nil)); err != nil {
		return err
	}
	_, err := client.Receive(ctx)
	return err
}

// AwaitOffer waits for the offer. A refusal is returned as the error of its Status.
func AwaitOffer(ctx context.Context, server Conn) error {
	frame, err := server.Receive(ctx)
	if err != nil {
		return err
	}
	channel, data, err := proto.ParseStreamFrame(frame)
	if err != nil || channel != proto.ChannelError {
		return err
	}
	status, err := ParseStatus(data)
	if err != nil {
		return err
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// AcceptOffer accepts the offer.
func AcceptOffer(ctx context.Context, server Conn) error {
	return server.Send(ctx, proto.StreamFrame(proto.ChannelStdin, nil))
}

// ParseStatus parses the data of a frame of the error channel.
func ParseStatus(data []byte) (*metav1.Status, error) {
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil {
		return nil, fmt.Errorf("error stream protocol error: %w in %q", err, data)
	}
	return &status, nil
}

// SendStatus sends the client the final status.
func SendStatus(ctx context.Context, client Conn, status *metav1.Status) error {
	return client.Send(ctx, proto.StatusFrame(status))
}

// Relay relays frames between a client and the process's side until either ends the stream. It
// fails if the process's side breaks before the client has received a status.
func Relay(ctx context.Context, client, server Conn) error {
	return daemon.Run(ctx,
		func(ctx context.Context) error { return relayOutput(ctx, client, server) },
		func(ctx context.Context) error { return relayInput(ctx, client, server) },
		func(ctx context.Context) error {
			select {
			case <-client.Done(): // also while the relay neither reads from it nor writes to it
			case <-ctx.Done():
			}
			return nil
		},
	)
}

// relayOutput relays frames of the process's side to the client.
func relayOutput(ctx context.Context, client, server Conn) error {
	for {
		frame, err := server.Receive(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case client.Send(ctx, frame) != nil:
			return nil //nolint:nilerr // the client has left
		}
	}
}

// relayInput relays frames of the client. If the process's side accepts no more, it has ended, and
// relayOutput relays its status.
func relayInput(ctx context.Context, client, server Conn) error {
	for {
		frame, err := client.Receive(ctx)
		if err != nil {
			return nil //nolint:nilerr // the client has left
		}
		if server.Send(ctx, frame) != nil {
			<-ctx.Done()
			return nil //nolint:nilerr // as above
		}
	}
}
