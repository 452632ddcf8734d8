package ephemeralvolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller makes claims.
type Controller struct {
	recorder control.Recorder
	pods     *view.Copy[*corev1.Pod]
	claims   *view.Copy[*corev1.PersistentVolumeClaim]
	client   control.Resource[*corev1.PersistentVolumeClaim]
	loop     *loop.Loop[view.Key]
}

// New is a controller that has not begun.
func New(base control.Base) *Controller {
	c := &Controller{
		recorder: base.Events("ephemeral_volume"),
		pods:     view.Of[*corev1.Pod](base.Views, "pods"),
		claims:   view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"),
		client:   control.Of[*corev1.PersistentVolumeClaim](base.API, "persistentvolumeclaims"),
	}
	c.loop = loop.New(loop.Config{Name: "ephemeral_volume", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: 2}, c.sync)
	c.pods.OnChange(func(_, now *corev1.Pod) {
		if now != nil && now.DeletionTimestamp == nil {
			for _, volume := range now.Spec.Volumes {
				if volume.Ephemeral != nil {
					c.loop.Add(view.KeyOf(now))
				}
			}
		}
	})
	return c
}

// Run makes claims until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) sync(ctx context.Context, key view.Key) error {
	pod, found := c.pods.Get(key)
	if !found {
		return nil
	}
	for _, volume := range pod.Spec.Volumes {
		have, there := c.claims.Get(view.Key{Namespace: pod.Namespace, Name: pod.Name + "-" + volume.Name})
		if !there {
			have = nil
		}
		claim, err := Decide(pod, volume, have)
		if err == nil && claim != nil {
			_, err = c.client.Create(ctx, claim)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			c.recorder.Event(pod, corev1.EventTypeWarning, "ClaimCreationFailed", "ephemeral volume "+volume.Name+": "+err.Error())
			return err
		}
	}
	return nil
}
