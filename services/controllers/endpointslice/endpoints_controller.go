package endpointslice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// EndpointsController keeps Endpoints.
type EndpointsController struct {
	seen
	endpoints *view.Copy[*corev1.Endpoints]       //nolint:staticcheck // clients still read them
	client    control.Resource[*corev1.Endpoints] //nolint:staticcheck // as above
	loop      *loop.Loop[view.Key]
}

// NewEndpoints is a controller that has not begun.
func NewEndpoints(base control.Base) *EndpointsController {
	c := &EndpointsController{
		endpoints: view.Of[*corev1.Endpoints](base.Views, "endpoints"),  //nolint:staticcheck // as above
		client:    control.Of[*corev1.Endpoints](base.API, "endpoints"), //nolint:staticcheck // as above
	}
	c.loop = loop.New(loop.Config{Name: "endpoint", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.sync)
	c.seen = look(base, c.loop.Add)
	c.endpoints.OnChange(func(old, now *corev1.Endpoints) { //nolint:staticcheck // as above
		if now == nil {
			now = old
		}
		c.loop.Add(view.KeyOf(now))
	})
	return c
}

// Run keeps Endpoints until ctx ends.
func (c *EndpointsController) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *EndpointsController) sync(ctx context.Context, key view.Key) error {
	service, found := c.services.Get(key)
	have, exists := c.endpoints.Get(key)
	if !found {
		if !exists || have.Labels[managedByLabel] != endpointsManagedBy {
			return nil
		}
		if err := c.client.Delete(ctx, have, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	if !Selects(service) {
		return nil
	}
	if !exists {
		have = nil
	}
	wanted := DecideEndpoints(c.view(service), have)
	switch {
	case wanted == nil:
		return nil
	case have == nil:
		_, err := c.client.Create(ctx, wanted)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	}
	_, err := c.client.Update(ctx, wanted)
	return err
}
