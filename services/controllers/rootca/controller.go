package rootca

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller writes the ConfigMaps.
type Controller struct {
	authority  string
	namespaces *view.Copy[*corev1.Namespace]
	configs    *view.Copy[*corev1.ConfigMap]
	client     control.Resource[*corev1.ConfigMap]
	loop       *loop.Loop[string]
}

// New returns a controller that has not begun. Without an authority it has nothing to publish.
func New(base control.Base) *Controller {
	c := &Controller{authority: string(base.RootCA)}
	if c.authority == "" {
		return c
	}
	c.namespaces = view.Of[*corev1.Namespace](base.Views, "namespaces")
	c.configs = view.Of[*corev1.ConfigMap](base.Views, "configmaps")
	c.client = control.Of[*corev1.ConfigMap](base.API, "configmaps")
	c.loop = loop.New(loop.Config{Name: "root_ca_cert_publisher", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.sync)
	c.namespaces.OnChange(func(_, now *corev1.Namespace) {
		if now != nil {
			c.loop.Add(now.Name)
		}
	})
	c.configs.OnChange(func(old, now *corev1.ConfigMap) {
		if now == nil {
			now = old
		}
		if now.Name == Name {
			c.loop.Add(now.Namespace)
		}
	})
	return c
}

// Run publishes the authority until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if c.loop == nil {
		<-ctx.Done()
		return nil
	}
	return c.loop.Run(ctx)
}

func (c *Controller) sync(ctx context.Context, name string) error {
	namespace, found := c.namespaces.Get(view.Key{Name: name})
	if !found {
		return nil
	}
	have, there := c.configs.Get(view.Key{Namespace: name, Name: Name})
	if !there {
		have = nil
	}
	wanted := Decide(namespace, have, c.authority)
	var err error
	switch {
	case wanted == nil:
	case have == nil:
		_, err = c.client.Create(ctx, wanted)
	default:
		_, err = c.client.Update(ctx, wanted)
	}
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the view will say so
	}
	return err
}
