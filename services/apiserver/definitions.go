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

// definitionWriter carries out the writes of the janitor of CustomResourceDefinitions.
type definitionWriter struct{ server *server }

// UpdateDefinition implements [custom.Writer].
func (d definitionWriter) UpdateDefinition(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	kind, ok := kinds.ByResource(custom.Resource)
	if !ok {
		return errNoDefinitions
	}
	body, err := kinds.Encode(crd)
	if err != nil {
		return err
	}
	return d.send(ctx, admission.Attributes{Verb: proto.VerbUpdate, Kind: kind, Subresource: "status", Name: crd.Name}, body)
}

var errNoDefinitions = fmt.Errorf("the table of kinds has no %s", custom.Resource)

// DeleteInstances implements [custom.Writer].
func (d definitionWriter) DeleteInstances(ctx context.Context, kind kinds.Kind) error {
	return d.send(ctx, admission.Attributes{Verb: proto.VerbDeleteCollection, Kind: kind}, nil)
}

func (d definitionWriter) send(ctx context.Context, what admission.Attributes, body []byte) error {
	what.Identity = proto.APIServer
	// The operation is a new one, so that nothing is taken for a repetition.
	operation := "definitions-" + string(d.server.api.NewUID())
	return d.server.handleOwn(ctx, verbs.Request{
		Attributes: what, Now: d.server.clock.Now(),
		Envelope: &proto.Request{Operation: operation, ContentType: kinds.ContentTypeOf(body), Body: body},
	})
}
