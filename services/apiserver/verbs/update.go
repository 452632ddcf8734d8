package verbs

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// update replaces an object. With a resourceVersion it replaces that version only. Without one, for
// kinds that allow it, the last writer wins (API-65). A few kinds are created by an update if they
// are missing.
func (a *API) update(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.UpdateOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(&opts)); err != nil {
		return nil, err
	}
	if a.isMissing(req) && req.Subresource == "" && registry.CreatesOnUpdate(req.Kind) {
		answer, err := a.createMissing(ctx, req, opts)
		if !apierrors.IsAlreadyExists(err) {
			return answer, err
		}
	}
	return a.modify(ctx, req, change{
		dryRun: len(opts.DryRun) > 0, by: author{manager: opts.FieldManager},
		next: func(old kinds.Object) (kinds.Object, []string, error) {
			obj, warnings, err := a.decodeBody(req, opts.FieldValidation)
			if err != nil {
				return nil, nil, err
			}
			if err := registry.CheckUID(req.Kind, obj, old); err != nil {
				return nil, nil, err
			}
			return obj, warnings, registry.CheckVersion(req.Kind, obj, old)
		},
	})
}

func (a *API) isMissing(req Request) bool { return a.Store.Snapshot().Get(req.key()) == nil }

func (a *API) createMissing(ctx context.Context, req Request, opts metav1.UpdateOptions) (*proto.Response, error) {
	obj, warnings, err := a.decodeBody(req, opts.FieldValidation)
	if err != nil {
		return nil, err
	}
	return a.createObject(ctx, req, obj, createOptions{
		dryRun: len(opts.DryRun) > 0, warnings: warnings, by: author{manager: opts.FieldManager},
	})
}
