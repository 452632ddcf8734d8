package verbs

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/custom"
)

// Definitions writes for the janitor of CustomResourceDefinitions, as the apiserver itself.
func (a *API) Definitions() custom.Writer { return definitions{a} }

type definitions struct{ api *API }

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
	_, err = d.api.update(ctx, Request{
		Attributes: admission.Attributes{
			Identity: proto.APIServer, Verb: proto.VerbUpdate, Kind: kind, Subresource: "status", Name: crd.Name,
		},
		Envelope: &proto.Request{Operation: d.operation(), ContentType: kinds.ContentTypeProtobuf, Body: body},
		Now:      d.api.Clock.Now(),
	})
	return err
}

var errNoDefinitions = fmt.Errorf("the table of kinds has no %s", custom.Resource)

// DeleteInstances implements [custom.Writer].
func (d definitions) DeleteInstances(ctx context.Context, kind kinds.Kind) error {
	req := Request{
		Attributes: admission.Attributes{Identity: proto.APIServer, Verb: proto.VerbDeleteCollection, Kind: kind},
		Envelope:   &proto.Request{Operation: d.operation()},
		Now:        d.api.Clock.Now(),
	}
	found, err := d.api.find(ctx, req, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return d.api.deleteAll(ctx, req, metav1.DeleteOptions{}, found.records)
}

// operation is a new one, so that nothing is taken for a repetition.
func (d definitions) operation() string { return "definitions-" + string(d.api.NewUID()) }
