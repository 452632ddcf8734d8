package verbs

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// patch changes an object by a patch. Unless the patch names a version, it is applied to whatever
// version is current (API-65).
func (a *API) patch(ctx context.Context, req Request) (*proto.Response, error) {
	opts, patchType, err := patchOptions(req)
	if err != nil {
		return nil, err
	}
	if patchType == types.ApplyYAMLPatchType {
		return a.apply(ctx, req, opts)
	}
	return a.modify(ctx, req, change{
		dryRun: len(opts.DryRun) > 0, by: author{manager: opts.FieldManager},
		next: func(old kinds.Object) (kinds.Object, []string, error) {
			return a.applyPatch(req, old, patchType, opts.FieldValidation)
		},
	})
}

// applyPatch returns old with the patch applied.
func (a *API) applyPatch(
	req Request, old kinds.Object, patchType types.PatchType, fieldValidation string,
) (obj kinds.Object, warnings []string, err error) {
	apply := registry.ApplyPatch
	if req.Kind.Custom {
		apply = a.Custom.Patch
	}
	obj, warnings, err = apply(req.Kind, old, patchType, req.Envelope.GetBody(), fieldValidation)
	if err != nil {
		return nil, nil, err
	}
	if err := registry.MatchRequest(req.Kind, obj, req.Namespace, req.Name); err != nil {
		return nil, nil, err
	}
	return obj, warnings, registry.CheckVersion(req.Kind, obj, old)
}

// patchType returns the type of a patch, and refuses those that are not served.
func patchType(req Request) (types.PatchType, error) {
	const served = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, " +
		"application/apply-patch+yaml"
	switch contentType := types.PatchType(req.Envelope.GetContentType()); contentType {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType:
		return contentType, nil
	case types.ApplyCBORPatchType:
	}
	return "", unsupportedMediaType(req, fmt.Sprintf(
		"the body of the request was in an unknown format - accepted media types include: %s", served))
}

func unsupportedMediaType(req Request, message string) error {
	refused := apierrors.NewGenericServerResponse(
		http.StatusUnsupportedMediaType, string(req.Verb), req.Kind.GroupResource(), req.Name, "", 0, false)
	refused.ErrStatus.Message = message
	return refused
}

// patchOptions returns the options and the type of a patch, of an object or of its scale.
func patchOptions(req Request) (metav1.PatchOptions, types.PatchType, error) {
	opts, err := decodeOptions[metav1.PatchOptions](req.Envelope.GetOptions())
	if err != nil {
		return opts, "", err
	}
	patchType, err := patchType(req)
	if err != nil {
		return opts, "", err
	}
	return opts, patchType, invalidOptions("PatchOptions", validation.ValidatePatchOptions(&opts, patchType))
}
