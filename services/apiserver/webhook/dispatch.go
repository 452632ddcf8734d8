package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// Caller calls a hook; [*Client] implements it.
type Caller interface {
	Call(ctx context.Context, h *Hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error)
}

// Dispatcher calls the hooks that match an event. It is safe for concurrent use; nil calls none.
type Dispatcher struct {
	Catalog *Catalog
	Caller  Caller
	// Versions returns the versions in which a kind is served.
	Versions func(kind kinds.Kind) []kinds.Kind
	// Decode reads an object of kind from JSON into the stored version.
	Decode func(kind kinds.Kind, document []byte) (kinds.Object, error)
	// NewUID returns the UID of a review.
	NewUID func() types.UID
	// History records every called hook and its answer; nil records nothing.
	History *history.Recorder
	Log     *slog.Logger
}

// Outcome is the result of the mutating hooks.
type Outcome struct {
	// Object is the event's object after the mutating hooks.
	Object kinds.Object
	// Changed says that a hook has changed Object.
	Changed  bool
	Warnings []string
}

// HasNoHooks reports whether no hook is called for the writes of an identity. It is cheap, so
// writes cost nothing more in a cluster without hooks.
func (d *Dispatcher) HasNoHooks(identity proto.Identity) bool {
	return d == nil || isExemptIdentity(identity) || len(d.Catalog.Mutating())+len(d.Catalog.Validating()) == 0
}

// isExemptIdentity reports whether no hook is called for an identity. The apiserver itself is
// exempt, because it must be able to start.
func isExemptIdentity(identity proto.Identity) bool { return identity == proto.APIServer }

// Mutate calls the mutating hooks, one after the other. Each sees the object as the hooks before it
// have left it. If a later hook has changed the object, earlier ones with a reinvocation policy are
// called once more (upstream's mutatingDispatcher).
func (d *Dispatcher) Mutate(ctx context.Context, e Event) (Outcome, error) {
	outcome := Outcome{Object: e.Object}
	if d.HasNoHooks(e.Identity) {
		return outcome, nil
	}
	first, err := d.callMutating(ctx, e, &outcome, nil)
	if err == nil && len(first) > 0 {
		_, err = d.callMutating(ctx, e, &outcome, first)
	}
	return outcome, err
}

// callMutating calls all hooks in order, or those in only. It returns the hooks to be called again,
// because a later hook has changed the object that they had seen.
func (d *Dispatcher) callMutating(
	ctx context.Context, e Event, outcome *Outcome, only map[*Hook]bool,
) (again map[*Hook]bool, err error) {
	again = map[*Hook]bool{}
	var seen []*Hook
	for _, h := range d.Catalog.Mutating() {
		if only != nil && !only[h] {
			continue
		}
		e.Object = outcome.Object
		changed, err := d.callMutatingHook(ctx, h, e, outcome)
		if err != nil {
			return nil, err
		}
		if changed {
			outcome.Changed = true
			for _, earlier := range seen {
				again[earlier] = true
			}
			seen = nil
		}
		if h.Reinvoke {
			seen = append(seen, h)
		}
	}
	return again, nil
}

// callMutatingHook calls one hook and applies its patch.
func (d *Dispatcher) callMutatingHook(ctx context.Context, h *Hook, e Event, outcome *Outcome) (changed bool, err error) {
	match, ok, err := h.Matches(e, d.Versions(e.Kind))
	if err != nil || !ok {
		return false, err
	}
	verdict, err := d.call(ctx, match, e, d.NewUID())
	d.recordVerdict(e, h, verdict, err)
	if err != nil {
		return false, d.applyFailurePolicy(ctx, h, err)
	}
	outcome.Warnings = append(outcome.Warnings, verdict.Warnings...)
	if verdict.Refused != nil {
		return false, verdict.Refused
	}
	if len(verdict.Patch) == 0 {
		return false, nil
	}
	patched, err := d.applyPatch(match, e, verdict.Patch)
	if err != nil {
		return false, err
	}
	changed = !reflect.DeepEqual(patched, e.Object)
	outcome.Object = patched
	return changed, nil
}

// applyPatch returns the event's object with a hook's patch applied.
func (d *Dispatcher) applyPatch(match Match, e Event, patch []byte) (kinds.Object, error) {
	if e.Object == nil {
		return nil, apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", match.Name))
	}
	gvk := e.bodyKind(match.Kind)
	document, err := encodeAs(e.Object, gvk)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	document, _, err = registry.PatchDocument(document, types.JSONPatchType, patch)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	kind := match.Kind
	kind.GroupVersionKind = gvk
	kind.Custom = kind.Custom && e.Body.Empty() // a custom kind's Scale is a Scale like any other
	obj, err := d.Decode(kind, document)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	obj.SetResourceVersion(e.Object.GetResourceVersion())
	return obj, nil
}

// Validate calls the validating hooks, all at once, and returns their warnings, or the first
// refusal in the hooks' order.
func (d *Dispatcher) Validate(ctx context.Context, e Event) ([]string, error) {
	if d.HasNoHooks(e.Identity) {
		return nil, nil
	}
	var matches []Match
	for _, h := range d.Catalog.Validating() {
		match, ok, err := h.Matches(e, d.Versions(e.Kind))
		if err != nil {
			return nil, err
		}
		if ok {
			matches = append(matches, match)
		}
	}
	verdicts, failures, uids := make([]Verdict, len(matches)), make([]error, len(matches)), make([]types.UID, len(matches))
	for i := range uids { // in order, whichever hook is called first
		uids[i] = d.NewUID()
	}
	runParallel(len(matches), func(i int) { verdicts[i], failures[i] = d.call(ctx, matches[i], e, uids[i]) })
	for i, match := range matches {
		d.recordVerdict(e, match.Hook, verdicts[i], failures[i])
	}
	var warnings []string
	for i, match := range matches {
		if err := d.applyFailurePolicy(ctx, match.Hook, failures[i]); err != nil {
			return nil, err
		}
		warnings = append(warnings, verdicts[i].Warnings...)
		if verdicts[i].Refused != nil {
			return nil, verdicts[i].Refused
		}
	}
	return warnings, nil
}

// runParallel calls do n times in parallel and waits for all. It raises a panic of do in the
// caller, so that the panic ends one request and not the process.
func runParallel(n int, do func(i int)) {
	var doing sync.WaitGroup
	panics := make(chan string, n)
	for i := range n {
		doing.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					panics <- fmt.Sprintf("%v\n%s", cause, debug.Stack()) // there is room for each
				}
			}()
			do(i)
		})
	}
	doing.Wait()
	select {
	case cause := <-panics:
		panic(cause)
	default:
	}
}

// call sends one review with the given UID to one hook. A hook whose conditions do not hold allows
// everything.
func (d *Dispatcher) call(ctx context.Context, match Match, e Event, uid types.UID) (Verdict, error) {
	review, err := match.newReview(e, uid)
	if err != nil {
		return Verdict{}, apierrors.NewInternalError(err)
	}
	wanted, err := match.conditionsHold(review.Request)
	if err != nil && !match.ignoresFailure() {
		return Verdict{}, apierrors.NewForbidden(e.Kind.GroupResource(), e.Name, fmt.Errorf("match conditions of webhook %q: %w", match.Name, err))
	}
	if !wanted {
		return Verdict{}, nil
	}
	if err := match.checkCallable(e); err != nil {
		return Verdict{}, err
	}
	answer, err := d.Caller.Call(ctx, match.Hook, review)
	if err != nil {
		return Verdict{called: true}, &CallError{Webhook: match.Name, Err: fmt.Errorf("failed to call webhook: %w", err)}
	}
	verdict, err := match.parseResponse(uid, answer)
	verdict.called = true
	if err != nil {
		return verdict, &CallError{Webhook: match.Name, Err: fmt.Errorf("received invalid webhook response: %w", err)}
	}
	if len(verdict.Patch) > 0 && !json.Valid(verdict.Patch) {
		return verdict, &CallError{Webhook: match.Name, Err: errBadPatch}
	}
	return verdict, nil
}

// recordVerdict writes a hook's answer to the history, if the hook was called.
func (d *Dispatcher) recordVerdict(e Event, h *Hook, verdict Verdict, failed error) {
	if !verdict.called {
		return
	}
	call := history.WebhookCall{
		Hook: h.Configuration + "/" + h.Name, Resource: e.Kind.GroupResource().String(), Key: e.Name,
		Answer: history.HookAllowed, Ignore: h.ignoresFailure(),
	}
	if e.Namespace != "" {
		call.Key = e.Namespace + "/" + e.Name
	}
	switch {
	case failed != nil:
		call.Answer = history.HookFailed
	case verdict.Refused != nil:
		call.Answer = history.HookDenied
	}
	d.History.Record(e.Operation, call)
}

var errBadPatch = errors.New("received undecodable patch in webhook response: it is not JSON")

// applyFailurePolicy is [Hook.applyFailurePolicy], and logs an error that is ignored.
func (d *Dispatcher) applyFailurePolicy(ctx context.Context, h *Hook, err error) error {
	unignored := h.applyFailurePolicy(err)
	switch {
	case err == nil || unignored != nil:
		return unignored
	case ctx.Err() != nil:
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	d.Log.InfoContext(ctx, "a webhook was passed over", "configuration", h.Configuration, "webhook", h.Name, "cause", err)
	return nil
}
