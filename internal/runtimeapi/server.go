package runtimeapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
)

const (
	// partSize is the maximum size of one part of an answer.
	partSize = 256 << 10
	// answerTimeout is how long, in wall time, sending an answer may take after its call has ended.
	answerTimeout = time.Second
	// maxQueuedCancels is how many unread cancellations are queued.
	maxQueuedCancels = 4096
)

// errStopping is the error of calls that are open when a runtime stops.
var errStopping = &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "the container runtime is stopping"}

// ServerConfig configures Serve. All fields but Ready are required; the zero Clock is valid.
type ServerConfig struct {
	// Bus is the connection to the node bus.
	Bus *bus.Conn
	// Runtime carries out the calls.
	Runtime Runtime
	// Clock is the cluster's clock, for the calls' deadlines.
	Clock clock.Clock
	// Faults are applied at cri.<Method>, with the attributes that Attributes returns for a
	// request.
	Faults     *fault.Table
	Attributes func(request protobuf.Message) fault.Attributes
	Log        *slog.Logger
	// Ready is called once calls reach the runtime.
	Ready func()
}

// Serve answers calls, each on its own goroutine, until ctx ends. It returns after all calls have
// returned. Calls still open then are answered Unavailable. A call that panics is answered Unknown,
// and logged.
func Serve(ctx context.Context, serving ServerConfig) error {
	conn, ready := serving.Bus, serving.Ready
	s := &server{
		boot: rand.Text(), runtime: serving.Runtime, calls: newCalls(), clock: serving.Clock,
		log: serving.Log, faults: serving.Faults, attributes: serving.Attributes,
	}
	// Subscribe before any call can arrive, or a call cancelled at once would continue for ever.
	given, err := conn.Subscribe(proto.CRISubject(cancel), maxQueuedCancels)
	if err != nil {
		return fmt.Errorf("runtime: subscribe to cancellations: %w", err)
	}
	defer given.Close()
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return s.handleCancels(ctx, given) },
	}
	for name, m := range methods() {
		service, err := conn.Listen(ctx, proto.CRISubject(name))
		if err != nil {
			return fmt.Errorf("runtime: %w", err)
		}
		parts = append(parts, func(ctx context.Context) error {
			return service.Serve(ctx, func(ctx context.Context, call *bus.Call) { s.handle(ctx, call, m, fault.CRI(name)) })
		})
	}
	streams, err := conn.Listen(ctx, proto.CRISubject(stream))
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	parts = append(parts, func(ctx context.Context) error { return streams.Serve(ctx, s.serveStream) })
	if ready != nil {
		ready()
	}
	err = daemon.Run(ctx, parts...)
	// Once Serve has returned, the bus knows that the subjects have no responder.
	sendCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer stop()
	_ = conn.Flush(sendCtx) // fails only if the connection is gone, and then the bus knows too
	return err
}

type server struct {
	boot       string
	runtime    Runtime
	calls      *calls
	clock      clock.Clock
	log        *slog.Logger
	faults     *fault.Table
	attributes func(protobuf.Message) fault.Attributes
}

// handleCancels cancels the calls that their callers have abandoned.
func (s *server) handleCancels(ctx context.Context, given *bus.Subscription) error {
	for {
		data, err := given.Next(ctx)
		switch {
		case errors.Is(err, bus.ErrMissedMessages):
			continue // deadlines end the calls with missed cancellations
		case err != nil:
			return err
		}
		var envelope proto.RuntimeRequest
		if protobuf.Unmarshal(data, &envelope) == nil {
			s.calls.cancel(&envelope)
		}
	}
}

// handle makes one call and sends its answer or error.
func (s *server) handle(ctx context.Context, call *bus.Call, m method, point fault.Point) {
	envelope := &proto.RuntimeResponse{Code: proto.CodeOK}
	var err error
	if envelope.Body, err = s.invoke(ctx, call, m, point); err != nil {
		runtimeErr := ToRuntimeError(err)
		if ctx.Err() != nil {
			runtimeErr = errStopping
		}
		envelope = &proto.RuntimeResponse{Code: runtimeErr.Code, Message: runtimeErr.Desc}
	}
	envelope.Boot = s.boot
	data, err := protobuf.Marshal(envelope)
	if err != nil {
		return // a response of plain fields always encodes
	}
	sendCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer stop()
	for len(data) > partSize {
		if call.Send(sendCtx, data[:partSize], true) != nil {
			return // the caller is gone
		}
		data = data[partSize:]
	}
	_ = call.Send(sendCtx, data, false)
}

var errPanic = &proto.RuntimeError{Code: proto.CodeUnknown, Desc: "this call made the container runtime panic; its log says how"}

// invoke makes one call and encodes its answer. A panic becomes an error, so that no call ends the
// process.
func (s *server) invoke(ctx context.Context, call *bus.Call, m method, point fault.Point) (reply []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.ErrorContext(ctx, "a call made the container runtime panic",
				"subject", call.Subject, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			reply, err = nil, errPanic
		}
	}()
	answer, err := s.decodeAndServe(ctx, call, m, point)
	if err != nil {
		return nil, err
	}
	return protobuf.Marshal(answer)
}

// decodeAndServe decodes the envelope and makes the call within the caller's deadline.
func (s *server) decodeAndServe(ctx context.Context, call *bus.Call, m method, point fault.Point) (protobuf.Message, error) {
	var envelope proto.RuntimeRequest
	if err := protobuf.Unmarshal(call.Data, &envelope); err != nil {
		return nil, invalidArgument("not a RuntimeRequest: %v", err)
	}
	if envelope.Version != proto.Version {
		return nil, invalidArgument("version %d: this runtime speaks version %d", envelope.Version, proto.Version)
	}
	req := m.request()
	if err := protobuf.Unmarshal(envelope.Body, req); err != nil {
		return nil, invalidArgument("not a %s: %v", req.ProtoReflect().Descriptor().Name(), err)
	}
	ctx, end := s.calls.start(context.WithValue(ctx, callerKey{}, call), &envelope, call.IsRequesterPresent)
	defer end()
	if envelope.TimeoutNano > 0 {
		var stop context.CancelFunc
		ctx, stop = s.clock.Timeout(ctx, time.Duration(envelope.TimeoutNano))
		defer stop()
	}
	return s.serveWithFaults(ctx, m, point, req)
}

// serveWithFaults makes the call under the faults of its point. A lie is an empty answer; a dropped
// answer is awaited in vain.
func (s *server) serveWithFaults(ctx context.Context, m method, point fault.Point, req protobuf.Message) (protobuf.Message, error) {
	if len(s.faults.Faults()) == 0 {
		return m.serve(ctx, s.runtime, req)
	}
	attributes := s.attributes(req)
	if err := s.faults.Inject(ctx, point, attributes); err != nil {
		if injected, ok := errors.AsType[*fault.Injected](err); ok {
			return nil, &proto.RuntimeError{Code: cmp.Or(injected.Code, proto.CodeUnknown), Desc: injected.Message}
		}
		return nil, err
	}
	if _, lie := s.faults.FindEffect(point, attributes, fault.Lie); lie {
		return m.answer(), nil
	}
	answer, err := m.serve(ctx, s.runtime, req)
	if _, lost := s.faults.FindEffect(point, attributes, fault.Drop); lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return answer, err
}

// callerKey is the context key of the bus.Call that a call answers.
type callerKey struct{}

// IsCallerWaiting reports whether the caller still waits for the call of ctx. A runtime checks it
// before an irreversible signal (CRI-07). It costs a round trip. For other contexts than those of
// [Serve], it reports whether ctx has not ended.
func IsCallerWaiting(ctx context.Context) bool {
	if call, ok := ctx.Value(callerKey{}).(*bus.Call); ok && !call.IsRequesterPresent(ctx) {
		return false
	}
	return ctx.Err() == nil
}

func invalidArgument(format string, args ...any) error {
	return &proto.RuntimeError{Code: proto.CodeInvalidArgument, Desc: fmt.Sprintf(format, args...)}
}
