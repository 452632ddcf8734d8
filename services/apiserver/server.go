package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// server answers calls. A malformed or refused call gets a Status that says what is wrong. No call
// ends the process.
type server struct {
	bus   *bus.Conn
	api   *verbs.API
	boot  proto.Boot
	clock clock.Clock
	log   *slog.Logger
	ready func()
	// history records writes when they arrive, and reads when they are answered.
	history    *history.Recorder
	malformed  atomic.Uint64 // malformed calls so far
	refusals   refusals
	epochs     nodeEpochs
	operations operations
}

func newServer(cfg Config, api *verbs.API) *server {
	return &server{
		bus: cfg.Bus, api: api, boot: cfg.Boot, clock: cfg.Clock, log: cfg.Log, ready: cfg.Ready,
		history: cfg.History, refusals: refusals{began: cfg.Clock.Now(), kept: map[string]inspect.Refusal{}},
		epochs:     newNodeEpochs(cfg.Clock),
		operations: newOperations(),
	}
}

// callSubjects matches the subjects of all API requests.
const callSubjects = proto.RootAPI + ".*.*.*.*.*"

func (s *server) run(ctx context.Context) error {
	if err := s.api.Bootstrap(ctx); err != nil {
		return err
	}
	service, err := s.bus.Listen(ctx, callSubjects)
	if err != nil {
		return err
	}
	s.ready()
	return service.Serve(ctx, s.serveCall)
}

// serveCall carries out one call, on a goroutine of its own.
func (s *server) serveCall(ctx context.Context, call *bus.Call) {
	send := func(ctx context.Context, part *proto.Response, more bool) error {
		part.Version, part.Boot = proto.Version, string(s.boot)
		data, err := protobuf.Marshal(part)
		if err != nil {
			return fmt.Errorf("answer %s: %w", call.Subject, err)
		}
		return call.Send(ctx, data, more)
	}
	err := s.recoverPanic(ctx, call.Subject, func() error { return s.handle(ctx, message{subject: call.Subject, data: call.Data}, send) })
	if err != nil {
		s.sendRefusal(ctx, call, send, err)
	}
}

// recoverPanic runs do. A panic is logged and becomes a 500 of that request.
func (s *server) recoverPanic(ctx context.Context, subject string, do func() error) error {
	err := verbs.RecoverPanic(do)
	if crash, ok := errors.AsType[*verbs.PanicError](err); ok {
		s.log.ErrorContext(ctx, "a request made the apiserver panic",
			"subject", subject, "cause", fmt.Sprint(crash.Cause), "stack", string(crash.Stack))
		return apierrors.NewInternalError(errPanic)
	}
	return err
}

var errPanic = errors.New("this request made the apiserver panic; its log says how")

// handle parses a call, checks its boot and deadline, and passes it to the verbs.
func (s *server) handle(ctx context.Context, call message, send verbs.Send) error {
	now := s.clock.Now()
	req, err := parseRequest(call, now, s.api.Custom)
	if err != nil {
		s.recordMalformed(call, err)
		return err
	}
	if err := s.epochs.check(req.Identity, proto.Boot(req.Envelope.GetBoot())); err != nil {
		return err
	}
	if deadline := req.Envelope.GetDeadlineUnixNano(); deadline != 0 {
		wall := clock.Clock{}
		left := wall.Until(time.Unix(0, deadline))
		if left <= 0 {
			return apierrors.NewTimeoutError(fmt.Sprintf(
				"the request came %v after its deadline and has changed nothing", -left), 0)
		}
		limited, cancel := wall.Timeout(ctx, left)
		defer cancel()
		ctx = limited
	}
	if !isWrite(req.Verb) {
		return s.recordRead(req, send, func(send verbs.Send) error { return s.api.Do(ctx, *req, send) })
	}
	return s.recordWrite(req, send, func(send verbs.Send) error { return s.handleWrite(ctx, call.subject, req, send) })
}

// handleOwn carries out a write of the apiserver itself, recorded like any other.
func (s *server) handleOwn(ctx context.Context, req verbs.Request) error {
	unheard := func(context.Context, *proto.Response, bool) error { return nil }
	return s.recoverPanic(ctx, req.Envelope.GetOperation(), func() error {
		return s.recordWrite(&req, unheard, func(send verbs.Send) error { return s.api.Do(ctx, req, send) })
	})
}

// handleWrite carries out a request that may change something. Requests of the same operation run
// one at a time, and once only.
func (s *server) handleWrite(ctx context.Context, subject string, req *verbs.Request, send verbs.Send) error {
	operation := string(req.Identity) + " " + req.Envelope.GetOperation()
	if err := s.operations.acquire(ctx, operation); err != nil {
		return err
	}
	defer s.operations.release(operation)
	return s.operations.doOnce(ctx, operation, request{subject, req.Envelope}, send, func(send verbs.Send) error {
		return s.api.Do(ctx, *req, send)
	})
}

// sendRefusal answers with an error. If the answer cannot be sent, the caller is gone, so the
// failure is only logged.
func (s *server) sendRefusal(ctx context.Context, call *bus.Call, send verbs.Send, reason error) {
	answer, err := verbs.Refusal(asStatusError(reason))
	if err == nil {
		err = send(ctx, answer, false)
	}
	if err != nil {
		s.log.DebugContext(ctx, "an answer was lost", "subject", call.Subject, "cause", err)
	}
}

// asStatusError turns an internal failure into an API error that says whether the request may have
// taken effect.
func asStatusError(err error) error {
	var refused apierrors.APIStatus
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(err, store.ErrCommitTimeout):
		return apierrors.NewTimeoutError("the store has not written before the deadline of the request; it may have taken effect or not", 0)
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the deadline of the request has passed; it may have taken effect or not", 0)
	case errors.As(err, new(*store.CommitError)):
		return apierrors.NewServiceUnavailable(
			"the apiserver is ending, because its disk did not take a commit; the request may have taken effect or not")
	case errors.Is(err, store.ErrStopped), errors.Is(err, context.Canceled):
		return apierrors.NewServiceUnavailable("the apiserver is ending; the request may have taken effect or not")
	}
	return err
}
