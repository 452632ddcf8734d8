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

// call is one request before it has an operation and a deadline.
type call struct {
	verb   proto.Verb
	target Target
	// options is the verb's metav1 options; list goes with deletecollection only.
	options     message
	list        *metav1.ListOptions
	contentType string
	body        []byte
	// patience is how long to wait for an answer, or its next part, before the
	// request is sent again; a third of the call's time when zero.
	patience time.Duration
}

// message is what every metav1 options type is.
type message interface{ Marshal() ([]byte, error) }

// String is the call as errors name it: "get pods default/web".
func (w call) String() string { return string(w.verb) + " " + w.target.String() }

// one carries out a call that is answered in one part.
func (c *Client) one(ctx context.Context, what call) (*proto.Response, error) {
	var answer *proto.Response
	err := c.attempts(ctx, what, func(ctx context.Context, patience time.Duration, data []byte) error {
		ctx, cancel := clock.Clock{}.Timeout(ctx, patience)
		defer cancel()
		raw, err := c.link.Request(ctx, proto.APIServer, c.subject(what), data)
		if err != nil {
			return err
		}
		answer, err = c.read(raw)
		return err
	})
	return answer, err
}

// parts carries out a call that is answered in parts, and returns all of them.
func (c *Client) parts(ctx context.Context, what call) ([]*proto.Response, error) {
	var answer []*proto.Response
	err := c.attempts(ctx, what, func(ctx context.Context, patience time.Duration, data []byte) error {
		answer = nil
		return patiently(ctx, patience, func(ctx context.Context, heard func()) error {
			for raw, err := range c.link.Stream(ctx, proto.APIServer, c.subject(what), data) {
				if err != nil {
					return err
				}
				heard()
				part, err := c.read(raw)
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

func (c *Client) subject(what call) string {
	return proto.APISubject{
		Identity: c.link.Identity(), Verb: what.verb,
		Resource: what.target.Kind.GroupResource().String(), Subresource: what.target.Subresource,
		Namespace: what.target.Namespace, Name: what.target.Name,
	}.String()
}

// The pauses between two attempts of one call, on the wall.
const (
	firstPause = 20 * time.Millisecond
	longPause  = 500 * time.Millisecond
)

// attempt sends an envelope once and reads the answer, as long as it does not have to
// wait for longer than patience.
type attempt func(ctx context.Context, patience time.Duration, data []byte) error

// attempts sends one request, under one operation id, until try gets an answer or the
// call's time is over.
func (c *Client) attempts(ctx context.Context, what call, try attempt) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if err := what.target.check(); err != nil {
		return err
	}
	limit := c.limit()
	operation := c.cfg.Operation()
	data, err := c.envelope(what, operation, within(ctx, limit))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	told(ctx, operation)
	wall := clock.Clock{}
	all, cancel := wall.Timeout(ctx, limit)
	defer cancel()
	patience := what.patience
	if patience <= 0 {
		patience = limit / 3
	}
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := c.suffer(all, what, patience, func() error { return try(all, patience, data) })
		if err == nil || !transient(err) {
			return named(what, err)
		}
		if wall.Sleep(all, pause) != nil {
			return c.gaveUp(ctx, what, err)
		}
	}
}

// limit is how long on the wall a call may take.
func (c *Client) limit() time.Duration {
	return c.cfg.Clock.WallWithin(min(c.cfg.Timeout, leastTimeout), c.cfg.Timeout)
}

// within is limit, or what is left until ctx ends.
func within(ctx context.Context, limit time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(limit, clock.Clock{}.Until(end))
	}
	return limit
}

// envelope is the request as it goes onto the bus, unchanged however often. It always has
// a deadline: without one the apiserver would carry it out however late it came, so what
// has no time left is not sent.
func (c *Client) envelope(what call, operation string, limit time.Duration) ([]byte, error) {
	if limit <= 0 {
		return nil, context.DeadlineExceeded
	}
	options, err := what.options.Marshal()
	if err != nil {
		return nil, err
	}
	request := &proto.Request{
		Version: proto.Version, Operation: operation, Boot: string(c.cfg.Boot),
		Options: options, ContentType: what.contentType, Body: what.body,
		ApiVersion: what.target.Kind.GroupVersion().String(),

		DeadlineUnixNano: clock.Clock{}.Now().Add(limit).UnixNano(),
	}
	if what.list != nil {
		if request.ListOptions, err = what.list.Marshal(); err != nil {
			return nil, err
		}
	}
	return protobuf.Marshal(request)
}

// read takes one part of an answer apart: its warnings are passed on, and a refusal
// becomes the error it stands for.
func (c *Client) read(raw []byte) (*proto.Response, error) {
	answer := &proto.Response{}
	if err := protobuf.Unmarshal(raw, answer); err != nil {
		return nil, fmt.Errorf("unreadable answer: %w", err)
	}
	if answer.GetVersion() != proto.Version {
		return nil, fmt.Errorf("the apiserver speaks version %d of the contract, this process version %d", answer.GetVersion(), proto.Version)
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

// transient reports whether a request that met err may be answered if it is sent again.
func transient(err error) bool {
	return errors.Is(err, bus.ErrNoResponder) || errors.Is(err, bus.ErrDisconnected) ||
		errors.Is(err, bus.ErrAbandoned) || errors.Is(err, bus.ErrBehind) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errSilent)
}

// gaveUp is the error of a call whose time ran out; last is what its last attempt met.
func (c *Client) gaveUp(ctx context.Context, what call, last error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if errors.Is(last, bus.ErrNoResponder) || errors.Is(last, bus.ErrDisconnected) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s: the apiserver was not to be reached in %s: %v", what, c.cfg.Timeout, last))
	}
	return apierrors.NewTimeoutError(fmt.Sprintf("%s: no answer from the apiserver in %s", what, c.cfg.Timeout), 0)
}

// named puts verb and key in front of an error, except of the apiserver's own, which
// names them itself.
func named(what call, err error) error {
	var said apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, &said):
		return err
	case errors.Is(err, bus.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s: %v", what, err))
	case errors.Is(err, bus.ErrForbidden):
		return apierrors.NewForbidden(what.target.Kind.GroupResource(), what.target.Name, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
