// Package remote is a conversation with a process in a container, as exec and attach have
// it: what both sides say, and how those between them pass it on.
//
//	client                                     the process's side
//	   | <-- offer: an empty frame of stdout ------ |   it could begin; nothing has yet
//	   | --- begin: an empty frame of stdin ------> |
//	   | <-- stdout, stderr ----------------------- |
//	   | --- stdin, resize, close ----------------> |
//	   | <-- a Status on the error channel -------- |   the last frame
//
// Instead of the offer there may be the Status at once, a refusal: so that whoever asks
// can be answered before anything has happened. The frames are proto's.
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

// Conn is one side's end of a conversation; a *bus.Pipe is one. One goroutine at a time
// may Send, and one Receive.
type Conn interface {
	// Send sends a frame, and waits while the other side is behind.
	Send(ctx context.Context, frame []byte) error
	// Receive waits for a frame. It fails with io.EOF when the other side has ended the
	// conversation in order.
	Receive(ctx context.Context) ([]byte, error)
	// Done is closed when the conversation has ended or is broken; frames that arrived
	// before can still be received.
	Done() <-chan struct{}
}

// Offer tells the client that its conversation may begin, and waits until it shall.
func Offer(ctx context.Context, client Conn) error {
	if err := client.Send(ctx, proto.StreamFrame(proto.ChannelStdout, nil)); err != nil {
		return err
	}
	_, err := client.Receive(ctx)
	return err
}

// Await waits for the offer. A refusal is the error that its Status says.
func Await(ctx context.Context, server Conn) error {
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

// Begin takes the offer up.
func Begin(ctx context.Context, server Conn) error {
	return server.Send(ctx, proto.StreamFrame(proto.ChannelStdin, nil))
}

// ParseStatus reads what a frame of the error channel says.
func ParseStatus(data []byte) (*metav1.Status, error) {
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil {
		return nil, fmt.Errorf("error stream protocol error: %w in %q", err, data)
	}
	return &status, nil
}

// Finish tells the client how it has ended.
func Finish(ctx context.Context, client Conn, status *metav1.Status) error {
	return client.Send(ctx, proto.StatusFrame(status))
}

// Relay passes frames on between a client and the process's side, until either has ended
// the conversation. It fails when the process's side broke off, so that the client has
// not been told how it ended.
func Relay(ctx context.Context, client, server Conn) error {
	return daemon.Run(ctx,
		func(ctx context.Context) error { return down(ctx, client, server) },
		func(ctx context.Context) error { return up(ctx, client, server) },
		func(ctx context.Context) error {
			select {
			case <-client.Done(): // also while nothing is read from it, nor written to it
			case <-ctx.Done():
			}
			return nil
		},
	)
}

// down passes on what the process's side says.
func down(ctx context.Context, client, server Conn) error {
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

// up passes on what the client says. When the process's side takes no more, it has ended,
// and down says how.
func up(ctx context.Context, client, server Conn) error {
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
