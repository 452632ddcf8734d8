package verbs

import (
	"context"
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// getScale returns the wanted and the present replicas of an object.
func (a *API) getScale(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.GetOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := a.waitForRevision(ctx, opts.ResourceVersion); err != nil {
		return nil, err
	}
	record := a.Store.Snapshot().Get(req.key())
	if record == nil {
		return nil, req.notFound()
	}
	scale, err := a.scaleOf(req, record.Object)
	if err != nil {
		return nil, err
	}
	return unstoredResponse(http.StatusOK, scaleKind(), scale, nil)
}

// updateScale changes the wanted replicas of an object only.
func (a *API) updateScale(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.UpdateOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&opts)); err != nil {
		return nil, err
	}
	how := change{dryRun: len(opts.DryRun) > 0, by: author{manager: opts.FieldManager}}
	return a.rescale(ctx, req, how, func(*autoscalingv1.Scale) (kinds.Object, []string, error) {
		obj, warnings, err := registry.DecodeBody(
			scaleKind(), req.Envelope.GetContentType(), req.Envelope.GetBody(), opts.FieldValidation)
		if err != nil {
			return nil, nil, err
		}
		return obj, warnings, registry.MatchRequest(scaleKind(), obj, req.Namespace, req.Name)
	})
}

// patchScale is updateScale by a patch.
func (a *API) patchScale(ctx context.Context, req Request) (*proto.Response, error) {
	opts, patchType, err := patchOptions(req)
	if err != nil {
		return nil, err
	}
	if patchType == types.ApplyYAMLPatchType {
		return a.applyScale(ctx, req, opts)
	}
	how := change{dryRun: len(opts.DryRun) > 0, by: author{manager: opts.FieldManager}}
	return a.rescale(ctx, req, how, func(now *autoscalingv1.Scale) (kinds.Object, []string, error) {
		of := req
		of.Kind = scaleKind()
		obj, warnings, err := registry.ApplyPatch(of.Kind, now, patchType, req.Envelope.GetBody(), opts.FieldValidation)
		if err != nil {
			return nil, nil, err
		}
		return obj, warnings, registry.MatchRequest(of.Kind, obj, req.Namespace, req.Name)
	})
}

// rescale stores a changed Scale of an object.
func (a *API) rescale(
	ctx context.Context, req Request, how change,
	next func(now *autoscalingv1.Scale) (kinds.Object, []string, error),
) (*proto.Response, error) {
	return a.modify(ctx, req, change{
		dryRun: how.dryRun, by: how.by,
		next: func(old kinds.Object) (kinds.Object, []string, error) {
			now, err := a.scaleOf(req, old)
			if err != nil {
				return nil, nil, err
			}
			wanted, warnings, err := next(now)
			if err != nil {
				return nil, nil, err
			}
			scale, ok := wanted.(*autoscalingv1.Scale)
			if !ok {
				return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("wrong object passed to Scale update: %T", wanted))
			}
			if err := checkScale(req, scale, old); err != nil {
				return nil, nil, err
			}
			scaled, err := a.scaler(req.Kind).SetReplicas(old, scale.Spec.Replicas)
			if err != nil {
				return nil, nil, apierrors.NewInternalError(err)
			}
			scaled.SetResourceVersion(scale.ResourceVersion)
			return scaled, warnings, registry.CheckVersion(req.Kind, scaled, old)
		},
		shown: a.showScale(req),
	})
}

// showScale returns a change.shown that answers with the Scale of the stored object.
func (a *API) showScale(req Request) func(kinds.Object) (kinds.Kind, kinds.Object, error) {
	return func(obj kinds.Object) (kinds.Kind, kinds.Object, error) {
		scale, err := a.scaleOf(req, obj)
		return scaleKind(), scale, err
	}
}

func checkScale(req Request, scale *autoscalingv1.Scale, old kinds.Object) error {
	if scale.Spec.Replicas < 0 {
		return apierrors.NewInvalid(scaleKind().GroupKind(), req.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	return registry.CheckUID(req.Kind, scale, old)
}

// scaler returns the Scaler of a kind.
func (a *API) scaler(kind kinds.Kind) registry.Scaler {
	scaler, ok := a.strategy(kind).(registry.Scaler)
	if !ok {
		return registry.ScaleOf(kind)
	}
	return scaler
}

func (a *API) scaleOf(req Request, obj kinds.Object) (*autoscalingv1.Scale, error) {
	scale, err := a.scaler(req.Kind).Scale(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	scale.SetGroupVersionKind(scaleKind().GroupVersionKind)
	scale.ObjectMeta = metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
	}
	return scale, nil
}

// scaleKind is the kind of every Scale.
func scaleKind() kinds.Kind {
	return kinds.Kind{
		GroupVersionKind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Resource: "scales", Namespaced: true,
	}
}
