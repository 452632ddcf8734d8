package apiserver

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// definitions asks for what the janitor of CustomResourceDefinitions does: requests of the
// apiserver itself, which are carried out and recorded as any other's.
type definitions struct{ server *server }

// UpdateDefinition implements [custom.Writer].
func (d definitions) UpdateDefinition(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	kind, ok := kinds.ByResource(custom.Resource)
	if !ok {
		return errNoDefinitions
	}
	body, err := kinds.Encode(crd)
	if err != nil {
		return err
	}
	return d.do(ctx, admission.Attributes{Verb: proto.VerbUpdate, Kind: kind, Subresource: "status", Name: crd.Name}, body)
}

var errNoDefinitions = fmt.Errorf("the table of kinds has no %s", custom.Resource)

// DeleteInstances implements [custom.Writer].
func (d definitions) DeleteInstances(ctx context.Context, kind kinds.Kind) error {
	return d.do(ctx, admission.Attributes{Verb: proto.VerbDeleteCollection, Kind: kind}, nil)
}

func (d definitions) do(ctx context.Context, what admission.Attributes, body []byte) error {
	what.Identity = proto.APIServer
	req := verbs.Request{
		Attributes: what, Now: d.server.clock.Now(), Meant: &verbs.Meant{},
		// The operation is a new one, so that nothing is taken for a repetition.
		Envelope: &proto.Request{Operation: "definitions-" + string(d.server.api.NewUID()), ContentType: kinds.ContentTypeOf(body), Body: body},
	}
	unheard := func(context.Context, *proto.Response, bool) error { return nil }
	return d.server.recorded(req, unheard, func(send verbs.Send) error { return d.server.api.Do(ctx, req, send) })
}
