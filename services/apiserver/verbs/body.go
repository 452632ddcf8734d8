package verbs

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// decodeBody returns the object in a request, in the stored version, and warnings. A body about
// another object than the request's is refused.
func (a *API) decodeBody(req Request, fieldValidation string) (obj kinds.Object, warnings []string, err error) {
	decode := registry.DecodeBody
	if req.Kind.Custom {
		decode = a.Custom.Decode
	}
	obj, warnings, err = decode(req.Kind, req.Envelope.GetContentType(), req.Envelope.GetBody(), fieldValidation)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case req.Meant == nil:
	case req.Verb == proto.VerbUpdate:
		*req.Meant = Meant{UID: string(obj.GetUID()), Revision: obj.GetResourceVersion()}
	case req.Verb == proto.VerbCreate && req.Subresource == "":
		*req.Meant = Meant{Name: obj.GetName()}
	}
	return obj, warnings, registry.MatchRequest(req.Kind, obj, req.Namespace, req.Name)
}

// invalidOptions returns a 422 for options with errors; nil if errs is empty.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}
