package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/deletion"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// delete deletes an object. deletion.Decide says what that means; delete carries it out, in one
// commit even if watchers see two changes (API-41).
func (a *API) delete(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.DeleteOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	return a.deleteWith(ctx, req, opts)
}

func (a *API) deleteWith(ctx context.Context, req Request, opts metav1.DeleteOptions) (*proto.Response, error) {
	if err := deletion.ValidateOptions(opts); err != nil {
		return nil, err
	}
	if err := admission.DenySystemNamespaceDeletion(req.Attributes); err != nil {
		return nil, err
	}
	var wanted *deletion.Decision // what this request would have done, had it not lost a race
	for old := a.Store.Snapshot().Get(req.key()); ; {
		if old == nil {
			return a.alreadyGone(req, wanted)
		}
		decision := a.decide(req, old, opts)
		if decision.Outcome == deletion.Refused { // by a precondition; admission runs after that (API-07)
			return nil, decision.Err
		}
		if decision.Outcome == deletion.Unchanged && wanted == nil { // upstream's shortcut (API-23): admission and webhooks are not called
			return unwrittenResponse(req, decision, opts)
		}
		decision, warnings, err := a.admitDelete(ctx, req, old, opts, decision)
		if err != nil {
			return nil, err
		}
		if wanted != nil && decision.Outcome == deletion.Unchanged {
			decision.Object = wanted.Object // API-27
		}
		answer, err := a.commitDecision(ctx, req, decision, old, opts)
		conflict, lost := errors.AsType[*store.ConflictError](err)
		if !lost {
			return addWarnings(answer, slices.Concat(warnings, a.deletionWarnings(req, old.Object, opts))), err
		}
		if decision.Outcome != deletion.Removed { // its object is its own, and the commit took this off
			decision.Object.SetResourceVersion(old.Object.GetResourceVersion())
		}
		wanted, old = &decision, conflict.Have
	}
}

// admitDelete returns the decision after admission has allowed the delete, with its warnings. If
// there are webhooks, the decision is made again, because upstream decides after them.
func (a *API) admitDelete(
	ctx context.Context, req Request, old *store.Record, opts metav1.DeleteOptions, decision deletion.Decision,
) (deletion.Decision, []string, error) {
	warnings, err := a.checkDelete(ctx, req, old.Object, opts)
	if err == nil && !a.Hooks.HasNoHooks(req.Identity) {
		decision = a.decide(req, old, opts)
	}
	return decision, warnings, err
}

// addWarnings adds warnings to an answer, which may be nil.
func addWarnings(answer *proto.Response, warnings []string) *proto.Response {
	if answer != nil {
		answer.Warnings = append(answer.Warnings, warnings...)
	}
	return answer
}

// deletionWarnings tells a person who deletes an object why it will stay, if that is known already.
// The cluster's processes get no warnings, because they do not read them.
func (a *API) deletionWarnings(req Request, obj kinds.Object, opts metav1.DeleteOptions) []string {
	if obj.GetDeletionTimestamp() != nil || !req.Identity.IsUser() {
		return nil
	}
	var node *corev1.Node
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		if record := a.Store.Snapshot().Get(store.Key{Resource: "nodes", Name: pod.Spec.NodeName}); record != nil {
			node, _ = record.Object.(*corev1.Node)
		}
	}
	return why.Warnings(obj, node, opts.GracePeriodSeconds != nil && *opts.GracePeriodSeconds == 0)
}

// decide returns what a delete of the version in old means now. That version may be newer than the
// request.
func (a *API) decide(req Request, old *store.Record, opts metav1.DeleteOptions) deletion.Decision {
	now := a.Clock.Now()
	return deletion.Decide(a.prepareForDelete(req, old, now), a.policy(req.Kind), opts, now)
}

// prepareForDelete returns the object with the finalizers that its kind adds before a delete.
func (a *API) prepareForDelete(req Request, old *store.Record, now time.Time) kinds.Object {
	if holds, ok := a.strategy(req.Kind).(registry.DeletePreparer); ok {
		return holds.PrepareForDelete(old.Object, now)
	}
	return old.Object
}

// alreadyGone answers a delete whose object does not exist. If the request would have removed the
// object, and another removed it a moment earlier, the answer is a success (API-43).
func (a *API) alreadyGone(req Request, wanted *deletion.Decision) (*proto.Response, error) {
	if wanted != nil && wanted.Outcome == deletion.MarkedAndRemoved && registry.ReturnsDeleted(req.Kind) {
		return unstoredResponse(http.StatusOK, req.Kind, wanted.Object, nil)
	}
	return nil, req.notFound() // API-02
}

func (a *API) policy(kind kinds.Kind) deletion.Policy {
	policy := deletion.Policy{
		Kind:            kind.GroupKind(),
		Graceful:        a.strategy(kind).Graceful,
		DeadlineMayPass: a.Compat.DeadlineMayPass,
	}
	switch kind.GroupResource().String() {
	case "replicationcontrollers", "jobs.batch": // upstream keeps what their oldest clients expect
		policy.Propagation = metav1.DeletePropagationOrphan
	}
	return policy
}

// commitDecision commits a decision and returns its answer.
func (a *API) commitDecision(
	ctx context.Context, req Request, decision deletion.Decision, old *store.Record, opts metav1.DeleteOptions,
) (*proto.Response, error) {
	if decision.Outcome == deletion.Refused {
		return nil, decision.Err
	}
	if decision.Outcome == deletion.Unchanged || len(opts.DryRun) > 0 {
		return unwrittenResponse(req, decision, opts)
	}
	events, err := a.commit(ctx, req, decisionWrites(decision, old)...)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 { // marked already, just so (API-46)
		return storedResponse(markedCode(opts), req.Kind, old, nil)
	}
	return deleteResponse(req, events[len(events)-1], opts)
}

// deleteResponse returns the answer to a delete, given its last event.
func deleteResponse(req Request, last store.Event, opts metav1.DeleteOptions) (*proto.Response, error) {
	switch {
	case last.Type != store.Deleted:
		return storedResponse(markedCode(opts), req.Kind, last.Record, nil)
	case registry.ReturnsDeleted(req.Kind):
		return storedResponse(http.StatusOK, req.Kind, last.Record, nil)
	}
	return successResponse(http.StatusOK, deletedDetails(req.Kind, last.Record.Object), nil)
}

// markedCode is the code for an object that stays. It is 202 if orphanDependents is set to false
// (API-06).
func markedCode(opts metav1.DeleteOptions) int32 {
	if orphan := deletion.OrphanDependents(opts); orphan != nil && !*orphan {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// unwrittenResponse returns the answer to a delete that writes nothing.
func unwrittenResponse(req Request, decision deletion.Decision, opts metav1.DeleteOptions) (*proto.Response, error) {
	if decision.Outcome != deletion.Marked && !registry.ReturnsDeleted(req.Kind) {
		return successResponse(http.StatusOK, deletedDetails(req.Kind, decision.Object), nil)
	}
	code := int32(http.StatusOK)
	if decision.Outcome == deletion.Unchanged || decision.Outcome == deletion.Marked {
		code = markedCode(opts)
	}
	return unstoredResponse(code, req.Kind, decision.Object, nil)
}

// decisionWrites returns the writes of a decision. A grace of 0 marks before it removes, so that
// watchers see why.
func decisionWrites(decision deletion.Decision, old *store.Record) []store.Write {
	mark := store.Write{Key: old.Key, Expect: old.Revision, Object: decision.Object}
	switch decision.Outcome {
	case deletion.Marked:
		return []store.Write{mark}
	case deletion.MarkedAndRemoved:
		return []store.Write{mark, {Key: old.Key, Expect: store.Previous}}
	case deletion.Removed:
		return []store.Write{{Key: old.Key, Expect: old.Revision}}
	case deletion.Refused, deletion.Unchanged:
	}
	panic(fmt.Sprintf("verbs: %v writes nothing", decision.Outcome))
}

// deletedDetails names the object of a delete, for kinds that do not return it (API-05).
func deletedDetails(kind kinds.Kind, obj kinds.Object) *metav1.StatusDetails {
	return &metav1.StatusDetails{Name: obj.GetName(), Group: kind.Group, Kind: kind.Resource, UID: obj.GetUID()}
}
