package verbs

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// mutate calls the mutating webhooks. Their result is prepared again, so that they cannot change
// what only the server may set.
func (a *API) mutate(ctx context.Context, w *write) error {
	if a.Hooks.HasNoHooks(w.Identity) {
		return nil
	}
	event, err := a.webhookEvent(w)
	if err != nil {
		return err
	}
	outcome, err := a.Hooks.Mutate(ctx, event)
	if err != nil {
		return err
	}
	w.warnings = append(w.warnings, outcome.Warnings...)
	if !outcome.Changed {
		return nil
	}
	obj := outcome.Object
	if scaled, ok := obj.(*autoscalingv1.Scale); ok {
		if obj, err = a.scaler(w.Kind).SetReplicas(w.obj, scaled.Spec.Replicas); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if err := registry.MatchRequest(w.Kind, obj, w.Namespace, w.Name); err != nil {
		return err
	}
	version := w.obj.GetResourceVersion()
	w.obj = obj
	if w.old != nil {
		w.obj.SetResourceVersion(version)
	}
	managed := w.obj.GetManagedFields()
	err = a.prepare(ctx, w)
	w.obj.SetManagedFields(managed)
	return err
}

// callValidatingHooks calls the validating webhooks with the object to be stored.
func (a *API) callValidatingHooks(ctx context.Context, w *write) error {
	if a.Hooks.HasNoHooks(w.Identity) {
		return nil
	}
	event, err := a.webhookEvent(w)
	if err != nil {
		return err
	}
	warnings, err := a.Hooks.Validate(ctx, event)
	w.warnings = append(w.warnings, warnings...)
	return err
}

// webhookEvent returns a write as webhooks see it. For the scale subresource they see the Scale.
func (a *API) webhookEvent(w *write) (webhook.Event, error) {
	event := webhook.Event{
		Attributes: w.Attributes, Operation: w.Envelope.GetOperation(), Object: w.obj, Old: w.old, DryRun: w.dryRun, NamespaceObject: namespaceIn(w.snapshot, w.Namespace),
	}
	event.Name = w.obj.GetName()
	var err error
	if event.Options, err = w.verbOptions(); err != nil {
		return event, err
	}
	if w.Subresource != scale || w.old == nil {
		return event, nil
	}
	event.Body = scaleKind().GroupVersionKind
	if event.Object, err = a.scaleOf(w.Request, w.obj); err != nil {
		return event, err
	}
	event.Old, err = a.scaleOf(w.Request, w.old)
	return event, err
}

// verbOptions returns a request's options, for webhooks.
func (r Request) verbOptions() (any, error) {
	data := r.Envelope.GetOptions()
	switch r.Verb {
	case proto.VerbCreate:
		return decodeOptions[metav1.CreateOptions](data)
	case proto.VerbUpdate:
		return decodeOptions[metav1.UpdateOptions](data)
	case proto.VerbPatch:
		return decodeOptions[metav1.PatchOptions](data)
	case proto.VerbDelete, proto.VerbDeleteCollection:
		return decodeOptions[metav1.DeleteOptions](data)
	case proto.VerbGet, proto.VerbList, proto.VerbWatch:
	}
	return nil, nil
}

// checkDelete calls admission, and then the webhooks, which may refuse a delete (API-07).
func (a *API) checkDelete(ctx context.Context, req Request, old kinds.Object, opts metav1.DeleteOptions) ([]string, error) {
	if err := admission.Admit(req.Attributes, nil, old); err != nil {
		return nil, err
	}
	if a.Hooks.HasNoHooks(req.Identity) {
		return nil, nil
	}
	event := webhook.Event{
		Attributes: req.Attributes, Operation: req.Envelope.GetOperation(), Old: old, Options: opts, DryRun: len(opts.DryRun) > 0,
		NamespaceObject: namespaceIn(a.Store.Snapshot(), req.Namespace),
	}
	outcome, err := a.Hooks.Mutate(ctx, event)
	if err != nil {
		return nil, err
	}
	warnings, err := a.Hooks.Validate(ctx, event)
	return append(outcome.Warnings, warnings...), err
}

// callHooksOnBody calls the webhooks with the body of a subresource that has a kind of its own, and
// returns the body as they leave it.
func callHooksOnBody[T kinds.Object](ctx context.Context, a *API, req Request, body T, dryRun bool) (T, []string, error) {
	if a.Hooks.HasNoHooks(req.Identity) {
		return body, nil, nil
	}
	gvk, err := kinds.GVK(body)
	if err != nil {
		return body, nil, err
	}
	event := webhook.Event{
		Attributes: req.Attributes, Operation: req.Envelope.GetOperation(), Body: gvk, Object: body, DryRun: dryRun,
		NamespaceObject: namespaceIn(a.Store.Snapshot(), req.Namespace),
	}
	if event.Options, err = req.verbOptions(); err != nil {
		return body, nil, err
	}
	outcome, err := a.Hooks.Mutate(ctx, event)
	if err != nil {
		return body, nil, err
	}
	event.Object = outcome.Object
	warnings, err := a.Hooks.Validate(ctx, event)
	changed, ok := outcome.Object.(T)
	if err == nil && !ok {
		err = apierrors.NewInternalError(fmt.Errorf("webhooks have made a %T of a %T", outcome.Object, body))
	}
	return changed, append(outcome.Warnings, warnings...), err
}

// DecodeStored reads an object of kind from JSON into the stored version, for webhooks.
func (a *API) DecodeStored(kind kinds.Kind, document []byte) (kinds.Object, error) {
	decode := registry.DecodeBody
	if kind.Custom {
		decode = a.Custom.Decode
	}
	obj, _, err := decode(kind, kinds.ContentTypeJSON, document, metav1.FieldValidationIgnore)
	return obj, err
}

// Versions returns the versions in which a kind is served.
func (a *API) Versions(kind kinds.Kind) []kinds.Kind {
	if kind.Custom {
		return a.Custom.Versions(kind.GroupResource().String())
	}
	return kinds.Versions(kind.GroupResource())
}
