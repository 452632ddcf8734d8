package podapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
)

// clientNameKey is the context key of WithClientName.
type clientNameKey struct{}

// WithClientName returns a context for calls on behalf of another client. Faults select by that
// client name.
func WithClientName(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientNameKey{}, client)
}

// clientName returns the client name that faults select by.
func (c *Client) clientName(ctx context.Context) string {
	if client, ok := ctx.Value(clientNameKey{}).(string); ok {
		return client
	}
	return cmp.Or(c.cfg.ClientName, string(c.link.Identity()))
}

func (c *Client) attributes(ctx context.Context, req call) fault.Attributes {
	return fault.Attributes{
		Client: c.clientName(ctx), Verb: string(req.verb), Resource: req.target.Kind.GroupResource().String(),
		Subresource: req.target.Subresource, Namespace: req.target.Namespace, Name: req.target.Name,
	}
}

// withFaults runs try under the faults of api.request. A held request is sent when it is released,
// a dropped answer is awaited in vain, and a duplicate is one operation sent twice.
func (c *Client) withFaults(ctx context.Context, req call, patience time.Duration, try func() error) error {
	attrs := c.attributes(ctx, req)
	if err := c.cfg.Faults.Inject(ctx, fault.APIRequest, attrs); err != nil {
		if injected, ok := errors.AsType[*fault.Injected](err); ok {
			return injectedStatus(injected)
		}
		return errHeld
	}
	if _, twice := c.cfg.Faults.FindEffect(fault.APIRequest, attrs, fault.Duplicate); twice {
		if err := try(); err != nil {
			return err
		}
	}
	err := try()
	if err != nil {
		return err
	}
	if _, lost := c.cfg.Faults.FindEffect(fault.APIRequest, attrs, fault.Drop); lost {
		_ = clock.Clock{}.Sleep(ctx, patience) // the caller's deadline may end it sooner
		return context.DeadlineExceeded
	}
	return nil
}

// errHeld means that a fault held a request for longer than its call may take.
var errHeld = fmt.Errorf("held up by a fault: %w", errSilent)

// injectedStatus returns the refusal that a fault injects; 500 if the fault has no code.
func injectedStatus(injected *fault.Injected) error {
	code, err := strconv.Atoi(injected.Code)
	if err != nil {
		code = http.StatusInternalServerError
	}
	reasons := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: injected.Message,
	}}
}

// deliverWithFaults delivers an event under the faults of watch.deliver.
func (r *reader) deliverWithFaults(ctx context.Context, event watch.Event) error {
	c := r.client
	return DeliverWithFaults(ctx, c.cfg.Faults, c.clientName(ctx), r.target, event, func(event watch.Event) error {
		if err := r.send(ctx, event); err != nil || event.Type != watch.Error {
			return err
		}
		return errOver
	})
}

// DeliverWithFaults passes a watch event to offer under the faults of watch.deliver: late, never,
// twice, or an ERROR instead, which ends the watch.
func DeliverWithFaults(ctx context.Context, faults *fault.Table, client string, of Target, event watch.Event, offer func(watch.Event) error) error { //nolint:revive // all that a delivery is
	if len(faults.Faults()) == 0 {
		return offer(event)
	}
	attrs := fault.Attributes{Client: client, Verb: string(event.Type), Resource: of.Kind.GroupResource().String()}
	if object, err := meta.Accessor(event.Object); err == nil {
		attrs.Namespace, attrs.Name = object.GetNamespace(), object.GetName()
	}
	if _, gone := faults.FindEffect(fault.WatchDeliver, attrs, fault.Expire); gone {
		status := apierrors.NewResourceExpired("too old resource version: a fault has expired it").Status()
		return offer(watch.Event{Type: watch.Error, Object: &status})
	}
	if err := faults.Inject(ctx, fault.WatchDeliver, attrs); err != nil {
		return err
	}
	if _, lost := faults.FindEffect(fault.WatchDeliver, attrs, fault.Drop); lost {
		return nil
	}
	if _, twice := faults.FindEffect(fault.WatchDeliver, attrs, fault.Duplicate); twice {
		if err := offer(event); err != nil {
			return err
		}
	}
	return offer(event)
}
