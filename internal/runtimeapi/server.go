package runtimeapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
)

const (
	// partSize is the most that one part of an answer holds.
	partSize = 256 << 10
	// farewell is how long, on the wall, an answer may take to leave after its call
	// was ended.
	farewell = time.Second
	// cancels is how many cancellations may wait to be read.
	cancels = 4096
)

// errStopping ends the calls that are open when a runtime stops.
var errStopping = &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "the container runtime is stopping"}

// Serve answers the calls that arrive on conn's bus with rt, each in a goroutine of its
// own, until ctx ends; it returns when all calls have. Calls that are open then are
// answered Unavailable. It calls ready, if that is not nil, once calls reach it.
func Serve(ctx context.Context, conn *bus.Conn, rt Runtime, ready func()) error {
	s := &server{runtime: rt, calls: newCalls()}
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return s.hear(ctx, conn) },
	}
	for name, m := range methods() {
		service, err := conn.Listen(ctx, proto.CRISubject(name))
		if err != nil {
			return fmt.Errorf("runtime: %w", err)
		}
		parts = append(parts, func(ctx context.Context) error {
			return service.Serve(ctx, func(ctx context.Context, call *bus.Call) { s.answer(ctx, call, m) })
		})
	}
	if ready != nil {
		ready()
	}
	err := daemon.Run(ctx, parts...)
	// Once Serve has returned, the bus knows that nobody answers any more.
	leaving, stop := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer stop()
	_ = conn.Flush(leaving) // fails where the connection is gone, and then it knows too
	return err
}

type server struct {
	runtime Runtime
	calls   *calls
}

// hear ends the calls that their callers have given up.
func (s *server) hear(ctx context.Context, conn *bus.Conn) error {
	given, err := conn.Subscribe(proto.CRISubject(cancel), cancels)
	if err != nil {
		return fmt.Errorf("runtime: hear of calls given up: %w", err)
	}
	defer given.Close()
	for {
		data, err := given.Next(ctx)
		switch {
		case errors.Is(err, bus.ErrBehind):
			continue // their deadlines end those that were missed
		case err != nil:
			return err
		}
		var envelope proto.RuntimeRequest
		if protobuf.Unmarshal(data, &envelope) == nil {
			s.calls.giveUp(&envelope)
		}
	}
}

// answer makes one call and sends what came of it.
func (s *server) answer(ctx context.Context, call *bus.Call, m method) {
	envelope := &proto.RuntimeResponse{Code: proto.CodeOK}
	answer, err := s.make(context.WithValue(ctx, callerKey{}, call), call.Data, m)
	if err == nil {
		envelope.Body, err = protobuf.Marshal(answer)
	}
	if err != nil {
		refused := refusal(err)
		if ctx.Err() != nil {
			refused = errStopping
		}
		envelope = &proto.RuntimeResponse{Code: refused.Code, Message: refused.Desc}
	}
	data, err := protobuf.Marshal(envelope)
	if err != nil {
		return // a response of plain fields always encodes
	}
	leaving, stop := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer stop()
	for len(data) > partSize {
		if call.Send(leaving, data[:partSize], true) != nil {
			return // the caller is gone
		}
		data = data[partSize:]
	}
	_ = call.Send(leaving, data, false)
}

// make reads the envelope and makes the call within the caller's deadline.
func (s *server) make(ctx context.Context, data []byte, m method) (protobuf.Message, error) {
	var envelope proto.RuntimeRequest
	if err := protobuf.Unmarshal(data, &envelope); err != nil {
		return nil, invalid("not a RuntimeRequest: %v", err)
	}
	if envelope.Version != proto.Version {
		return nil, invalid("version %d: this runtime speaks version %d", envelope.Version, proto.Version)
	}
	req := m.request()
	if err := protobuf.Unmarshal(envelope.Body, req); err != nil {
		return nil, invalid("not a %s: %v", req.ProtoReflect().Descriptor().Name(), err)
	}
	ctx, end := s.calls.begin(ctx, &envelope)
	defer end()
	if envelope.TimeoutNano > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(envelope.TimeoutNano))
		defer stop()
	}
	return m.serve(ctx, s.runtime, req)
}

// callerKey is where a call's context keeps the bus.Call that it answers.
type callerKey struct{}

// StillWanted reports whether anyone still waits for the call that ctx belongs to. A
// runtime asks before a signal that it cannot take back (CRI-07). It costs a round
// trip; a context that is not of a call that [Serve] makes is wanted until it ends.
func StillWanted(ctx context.Context) bool {
	if call, ok := ctx.Value(callerKey{}).(*bus.Call); ok && !call.Present(ctx) {
		return false
	}
	return ctx.Err() == nil
}

func invalid(format string, args ...any) error {
	return &proto.RuntimeError{Code: proto.CodeInvalidArgument, Desc: fmt.Sprintf(format, args...)}
}
