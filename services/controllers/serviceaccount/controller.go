package serviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller makes accounts.
type Controller struct {
	namespaces *view.Copy[*corev1.Namespace]
	accounts   *view.Copy[*corev1.ServiceAccount]
	client     control.Resource[*corev1.ServiceAccount]
	loop       *loop.Loop[string]
}

// New is a controller that has not begun.
func New(base control.Base) *Controller {
	c := &Controller{
		namespaces: view.Of[*corev1.Namespace](base.Views, "namespaces"),
		accounts:   view.Of[*corev1.ServiceAccount](base.Views, "serviceaccounts"),
		client:     control.Of[*corev1.ServiceAccount](base.API, "serviceaccounts"),
	}
	c.loop = loop.New(loop.Config{Name: "serviceaccount", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.sync)
	c.namespaces.OnChange(func(_, now *corev1.Namespace) {
		if now != nil {
			c.loop.Add(now.Name)
		}
	})
	c.accounts.OnChange(func(old, now *corev1.ServiceAccount) {
		if now == nil && old.Name == Name {
			c.loop.Add(old.Namespace)
		}
	})
	return c
}

// Run makes accounts until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) sync(ctx context.Context, name string) error {
	namespace, found := c.namespaces.Get(view.Key{Name: name})
	if !found {
		return nil
	}
	have, there := c.accounts.Get(view.Key{Namespace: name, Name: Name})
	if !there {
		have = nil
	}
	account := Decide(namespace, have)
	if account == nil {
		return nil
	}
	_, err := c.client.Create(ctx, account)
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
