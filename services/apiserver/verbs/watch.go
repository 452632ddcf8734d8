package verbs

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/watch"
)

// watch hands a reader over to the hub, or renews the reader's group.
func (a *API) watch(ctx context.Context, req Request, opts metav1.ListOptions, send Send) error {
	opts.Watch = true
	if _, err := registry.ParseListOptions(req.Kind, req.Namespace, opts); err != nil {
		return err
	}
	scope, err := proto.ScopeFor(req.Kind.GroupResource().String(), req.Namespace, &opts)
	if err != nil {
		return err
	}
	if req.Subresource == proto.SubresourceRenew {
		return a.renew(ctx, req, scope, send)
	}
	return a.Hub.Open(ctx, watch.Request{Class: req.Identity.Class(), Scope: scope, Options: opts}, send)
}

func (a *API) renew(ctx context.Context, req Request, scope proto.WatchScope, send Send) error {
	if !a.Hub.Renew(req.Identity.Class(), scope) {
		return apierrors.NewNotFound(req.Kind.GroupResource(), "the group of this watch")
	}
	answer, err := successResponse(http.StatusOK, nil, nil)
	if err != nil {
		return err
	}
	return send(ctx, answer, false)
}
