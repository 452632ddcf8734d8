package podapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// call is one request before it gets an operation id and a deadline.
type call struct {
	verb   proto.Verb
	target Target
	// options are the verb's metav1 options; list is set for deletecollection only.
	options     marshaler
	list        *metav1.ListOptions
	contentType string
	body        []byte
	// attemptTimeout limits the wait for an answer, or for its next part, before the request is
	// sent again. Zero means a third of the call's time.
	attemptTimeout time.Duration
}

// marshaler is implemented by every metav1 options type.
type marshaler interface{ Marshal() ([]byte, error) }

// String returns the call as error messages name it: "get pods default/web".
func (w call) String() string { return string(w.verb) + " " + w.target.String() }

// request sends a call and returns its answer of one part.
func (c *Client) request(ctx context.Context, req call) (*proto.Response, error) {
	var answer *proto.Response
	err := c.retry(ctx, req, func(ctx context.Context, patience time.Duration, data []byte) error {
		ctx, cancel := clock.Clock{}.Timeout(ctx, patience)
		defer cancel()
		raw, err := c.link.Request(ctx, proto.APIServer, c.subject(req), data)
		if err != nil {
			return err
		}
		answer, err = c.decodeResponse(raw)
		return err
	})
	return answer, err
}

// stream sends a call and returns all parts of its answer.
func (c *Client) stream(ctx context.Context, req call) ([]*proto.Response, error) {
	var answer []*proto.Response
	err := c.retry(ctx, req, func(ctx context.Context, patience time.Duration, data []byte) error {
		answer = nil
		return withIdleTimeout(ctx, patience, func(ctx context.Context, heard func()) error {
			for raw, err := range c.link.Stream(ctx, proto.APIServer, c.subject(req), data) {
				if err != nil {
					return err
				}
				heard()
				part, err := c.decodeResponse(raw)
				if err != nil {
					return err
				}
				answer = append(answer, part)
			}
			return ctx.Err()
		})
	})
	return answer, err
}

func (c *Client) subject(req call) string {
	return proto.APISubject{
		Identity: c.link.Identity(), Verb: req.verb,
		Resource: req.target.Kind.GroupResource().String(), Subresource: req.target.Subresource,
		Namespace: req.target.Namespace, Name: req.target.Name,
	}.String()
}

// The delays between two attempts of one call, in wall time.
const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = 500 * time.Millisecond
)

// attemptFunc sends an envelope once and reads the answer. It gives up after timeout without data.
type attemptFunc func(ctx context.Context, patience time.Duration, data []byte) error

// retry sends one request, under one operation id, until try succeeds or the call's time is over.
func (c *Client) retry(ctx context.Context, req call, try attemptFunc) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", req, context.Cause(ctx))
	}
	if err := req.target.check(); err != nil {
		return err
	}
	limit := c.callTimeout()
	operation := c.cfg.Operation()
	data, err := c.encodeRequest(req, operation, untilDeadline(ctx, limit))
	if err != nil {
		return fmt.Errorf("%s: %w", req, err)
	}
	callOperationHook(ctx, operation)
	wall := clock.Clock{}
	all, cancel := wall.Timeout(ctx, limit)
	defer cancel()
	patience := req.attemptTimeout
	if patience <= 0 {
		patience = limit / 3
	}
	for pause := minRetryDelay; ; pause = min(2*pause, maxRetryDelay) {
		err := c.withFaults(all, req, patience, func() error { return try(all, patience, data) })
		if err == nil || !isRetryable(err) {
			return wrapError(req, err)
		}
		if wall.Sleep(all, pause) != nil {
			return c.timeoutError(ctx, req, err)
		}
	}
}

// callTimeout returns how much wall time a call may take.
func (c *Client) callTimeout() time.Duration {
	return c.cfg.Clock.ClampWallDuration(min(c.cfg.Timeout, minTimeout), c.cfg.Timeout)
}

// untilDeadline returns limit, or the time until ctx ends if that is shorter.
func untilDeadline(ctx context.Context, limit time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(limit, clock.Clock{}.Until(end))
	}
	return limit
}

// encodeRequest returns the request as it is sent, the same for every attempt. It always carries a
// deadline: without one the apiserver would carry it out however late it arrived. So a request
// without time left is not sent.
func (c *Client) encodeRequest(req call, operation string, limit time.Duration) ([]byte, error) {
	if limit <= 0 {
		return nil, context.DeadlineExceeded
	}
	options, err := req.options.Marshal()
	if err != nil {
		return nil, err
	}
	request := &proto.Request{
		Version: proto.Version, Operation: operation, Boot: string(c.cfg.Boot),
		Options: options, ContentType: req.contentType, Body: req.body,
		ApiVersion: req.target.Kind.GroupVersion().String(),

		DeadlineUnixNano: clock.Clock{}.Now().Add(limit).UnixNano(),
	}
	if req.list != nil {
		if request.ListOptions, err = req.list.Marshal(); err != nil {
			return nil, err
		}
	}
	return protobuf.Marshal(request)
}

// decodeResponse decodes one part of an answer, passes on its warnings, and returns a refusal as an
// error.
func (c *Client) decodeResponse(raw []byte) (*proto.Response, error) {
	answer := &proto.Response{}
	if err := protobuf.Unmarshal(raw, answer); err != nil {
		return nil, fmt.Errorf("unreadable answer: %w", err)
	}
	if answer.GetVersion() != proto.Version {
		return nil, fmt.Errorf("the apiserver uses version %d of the contract, this process version %d", answer.GetVersion(), proto.Version)
	}
	if c.cfg.Warn != nil {
		for _, warning := range answer.GetWarnings() {
			c.cfg.Warn(warning)
		}
	}
	if answer.GetCode() >= 400 {
		return nil, decodeStatus(answer.GetCode(), answer.GetItem())
	}
	return answer, nil
}

// isRetryable reports whether a request that failed with err may succeed if it is sent again.
func isRetryable(err error) bool {
	return errors.Is(err, bus.ErrNoResponder) || errors.Is(err, bus.ErrDisconnected) ||
		errors.Is(err, bus.ErrAbandoned) || errors.Is(err, bus.ErrMissedMessages) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSilent)
}

// timeoutError returns the error of a call that ran out of time; last is the error of its last
// attempt.
func (c *Client) timeoutError(ctx context.Context, req call, last error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", req, context.Cause(ctx))
	}
	if errors.Is(last, bus.ErrNoResponder) || errors.Is(last, bus.ErrDisconnected) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s: the apiserver was not to be reached in %s: %v", req, c.cfg.Timeout, last))
	}
	return apierrors.NewTimeoutError(fmt.Sprintf("%s: no answer from the apiserver in %s", req, c.cfg.Timeout), 0)
}

// wrapError adds verb and key to an error. The apiserver's own errors name them already.
func wrapError(req call, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, &status):
		return err
	case errors.Is(err, bus.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s: %v", req, err))
	case errors.Is(err, bus.ErrForbidden):
		return apierrors.NewForbidden(req.target.Kind.GroupResource(), req.target.Name, err)
	}
	return fmt.Errorf("%s: %w", req, err)
}
