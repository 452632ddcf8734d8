package runtimeapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

// Streams is the call that opens a stream.
type Streams interface {
	// Stream connects client to a command in a running container, or to the container's own
	// program, until either side ends. It fails if client has not received a final status.
	Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error
}

// stream is the subject of Stream, besides those of the methods.
const stream = "Stream"

var _ Streams = (*Client)(nil)

// Stream implements [Streams].
func (c *Client) Stream(ctx context.Context, req *proto.ContainerStreamRequest, client remote.Conn) error {
	envelope := &proto.RuntimeRequest{
		Version: proto.Version, Boot: string(c.boot),
		Call: strconv.FormatUint(c.calls.Add(1), 10), Caller: string(c.conn.Identity()),
	}
	var err error
	if envelope.Body, err = protobuf.Marshal(req); err != nil {
		return ToRuntimeError(err)
	}
	raw, err := protobuf.Marshal(envelope)
	if err != nil {
		return ToRuntimeError(err)
	}
	pipe, err := c.conn.Open(ctx, proto.Runtime, proto.CRISubject(stream), raw)
	if err != nil {
		return ToRuntimeError(err)
	}
	defer pipe.Close()
	if err := remote.Relay(ctx, client, pipe); err != nil {
		return ToRuntimeError(err)
	}
	return nil
}

// serveStream connects the caller of a bus call to a process. Errors are sent as a Status.
func (s *server) serveStream(ctx context.Context, call *bus.Call) {
	client, err := call.Accept(ctx)
	if err != nil {
		s.log.InfoContext(ctx, "could not open the stream of a process", "err", err)
		return
	}
	if err := s.stream(ctx, call, client); err != nil {
		runtimeErr := ToRuntimeError(err)
		if ctx.Err() != nil {
			runtimeErr = errStopping
		}
		sendCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer stop()
		_ = remote.SendStatus(sendCtx, client, StreamStatus(runtimeErr)) // the client may have left
	}
}

func (s *server) stream(ctx context.Context, call *bus.Call, client remote.Conn) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.ErrorContext(ctx, "a stream made the container runtime panic",
				"subject", call.Subject, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	var envelope proto.RuntimeRequest
	if err := protobuf.Unmarshal(call.Data, &envelope); err != nil {
		return invalidArgument("not a RuntimeRequest: %v", err)
	}
	if envelope.Version != proto.Version {
		return invalidArgument("version %d: this runtime speaks version %d", envelope.Version, proto.Version)
	}
	var req proto.ContainerStreamRequest
	if err := protobuf.Unmarshal(envelope.Body, &req); err != nil {
		return invalidArgument("not a ContainerStreamRequest: %v", err)
	}
	ctx, end := s.calls.start(ctx, &envelope, call.IsRequesterPresent)
	defer end()
	return s.runtime.Stream(ctx, &req, client)
}

// StreamStatus converts the error of a stream to the Status for the client.
func StreamStatus(err error) *metav1.Status {
	if runtimeErr := ToRuntimeError(err); runtimeErr.Code == proto.CodeUnimplemented {
		return proto.NotImplemented(runtimeErr.Desc)
	}
	return proto.StatusFrom(apierrors.NewInternalError(fmt.Errorf("error executing command in container: %w", err)))
}
