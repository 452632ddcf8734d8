package verbs

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/fieldmanager"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// apply merges a manager's manifest into an object, and creates the object if it does not exist. It
// is retried if the object is created or deleted meanwhile.
func (a *API) apply(ctx context.Context, req Request, opts metav1.PatchOptions) (*proto.Response, error) {
	if err := checkManifest(req); err != nil {
		return nil, err
	}
	how := change{dryRun: len(opts.DryRun) > 0, by: author{manager: opts.FieldManager, applied: true}}
	how.next = func(old kinds.Object) (kinds.Object, []string, error) {
		obj, warnings, err := a.fields.Apply(req.fieldWrite(how.by), old, patchOf(req, opts))
		if err != nil {
			return nil, nil, err
		}
		if merged, ok := obj.(*unstructured.Unstructured); ok {
			if err := a.Custom.ToStored(req.Kind, merged); err != nil {
				return nil, nil, err
			}
		}
		if err := registry.MatchRequest(req.Kind, obj, req.Namespace, req.Name); err != nil || old == nil {
			return obj, warnings, err
		}
		return obj, warnings, registry.CheckVersion(req.Kind, obj, old)
	}
	for try := 1; ; try++ {
		answer, err := a.applyOnce(ctx, req, how)
		moved := apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && req.Subresource == ""
		if !moved || try == maxNameTries {
			return answer, err
		}
	}
}

// applyOnce changes the existing object, or creates it.
func (a *API) applyOnce(ctx context.Context, req Request, how change) (*proto.Response, error) {
	if !a.isMissing(req) || req.Subresource != "" {
		return a.modify(ctx, req, how)
	}
	obj, warnings, err := how.next(nil)
	if err != nil {
		return nil, err
	}
	return a.createObject(ctx, req, obj, createOptions{dryRun: how.dryRun, warnings: warnings, by: how.by})
}

// checkManifest refuses a manifest that would cost too much to read.
func checkManifest(req Request) error {
	if err := registry.CheckJSON(req.Envelope.GetBody()); err != nil {
		return err
	}
	return registry.CheckYAML(req.Envelope.GetBody())
}

// patchOf returns what a request applies.
func patchOf(req Request, opts metav1.PatchOptions) fieldmanager.Patch {
	return fieldmanager.Patch{
		Data: req.Envelope.GetBody(), Force: opts.Force != nil && *opts.Force, FieldValidation: opts.FieldValidation,
	}
}

// applyScale is apply for the number of replicas of an object. It creates no object.
func (a *API) applyScale(ctx context.Context, req Request, opts metav1.PatchOptions) (*proto.Response, error) {
	if err := checkManifest(req); err != nil {
		return nil, err
	}
	how := change{
		dryRun: len(opts.DryRun) > 0, by: author{manager: opts.FieldManager, applied: true}, shown: a.showScale(req),
	}
	how.next = func(old kinds.Object) (kinds.Object, []string, error) {
		now, err := a.scaleOf(req, old)
		if err != nil {
			return nil, nil, err
		}
		wanted, err := a.fields.ApplyScale(req.fieldWrite(how.by), old, now, patchOf(req, opts))
		if err != nil {
			return nil, nil, err
		}
		if err := registry.MatchRequest(scaleKind(), wanted.Scale, req.Namespace, req.Name); err != nil {
			return nil, nil, err
		}
		if err := checkScale(req, wanted.Scale, old); err != nil {
			return nil, nil, err
		}
		scaled, err := a.scaler(req.Kind).SetReplicas(old, wanted.Scale.Spec.Replicas)
		if err != nil {
			return nil, nil, apierrors.NewInternalError(err)
		}
		scaled.SetManagedFields(wanted.ManagedFields)
		scaled.SetResourceVersion(wanted.Scale.ResourceVersion)
		return scaled, wanted.Warnings, registry.CheckVersion(req.Kind, scaled, old)
	}
	return a.modify(ctx, req, how)
}
