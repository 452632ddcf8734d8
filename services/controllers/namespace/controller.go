package namespace

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// workers is how many namespaces are emptied at the same time.
const workers = 10

// Controller empties the namespaces that are being deleted.
type Controller struct {
	api         control.API
	collections control.Collections
	clock       clock.Clock
	log         *slog.Logger
	namespaces  *view.Copy[*corev1.Namespace]
	client      control.Resource[*corev1.Namespace]
	loop        *loop.Loop[view.Key]
}

// New returns a controller; Run does the work.
func New(base control.Base) *Controller {
	c := &Controller{
		api: base.API, collections: base.Collections, clock: base.Clock, log: base.Log,
		namespaces: view.Of[*corev1.Namespace](base.Views, "namespaces"),
		client:     control.Of[*corev1.Namespace](base.API, "namespaces"),
	}
	c.loop = loop.New(loop.Config{Name: "namespace", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.sync)
	c.namespaces.OnChange(func(_, now *corev1.Namespace) {
		if now != nil && now.DeletionTimestamp != nil {
			c.loop.AddAfter(view.KeyOf(now), SettleTime)
		}
	})
	return c
}

// Run empties namespaces until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) sync(ctx context.Context, key view.Key) error {
	ns, known := c.namespaces.Get(key)
	if !known || NextStep(ns) == Nothing {
		return nil
	}
	ns, err := c.client.Get(ctx, "", key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	switch NextStep(ns) {
	case Nothing:
		return nil
	case MarkPhase:
		if ns, err = c.client.UpdateStatus(ctx, WithTerminatingPhase(ns)); err != nil {
			return err
		}
	case Empty:
	}
	return c.applyVerdict(ctx, ns, Evaluate(ns, c.deleteContent(ctx, ns), c.clock.Now()))
}

func (c *Controller) applyVerdict(ctx context.Context, ns *corev1.Namespace, verdict Verdict) error {
	if verdict.Changed {
		updated := ns.DeepCopy()
		updated.Status.Conditions = verdict.Conditions
		stored, err := c.client.UpdateStatus(ctx, updated)
		if err != nil {
			return err
		}
		ns = stored
	}
	switch {
	case verdict.Err != nil:
		return verdict.Err
	case verdict.Finalize:
		target := podapi.Target{Kind: c.client.Kind(), Name: ns.Name, Subresource: "finalize"}
		_, err := c.api.Update(ctx, target, WithoutContentFinalizer(ns), metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	c.log.InfoContext(ctx, "content remains", "namespace", ns.Name, "again", verdict.RequeueAfter)
	c.loop.AddAfter(view.KeyOf(ns), verdict.RequeueAfter)
	return nil
}

// deleteContent deletes everything in the namespace, pods first.
func (c *Controller) deleteContent(ctx context.Context, ns *corev1.Namespace) Sweep {
	sweep := Sweep{}
	known := directory.New()
	sweep.Discovery = known.Load(ctx, c.api)
	pods, others := Content(known.All())
	left := c.deleteKind(ctx, ns, pods)
	sweep.Left = []Leftover{left}
	if left.Remains() {
		return sweep
	}
	for _, kind := range others {
		sweep.Left = append(sweep.Left, c.deleteKind(ctx, ns, kind))
	}
	return sweep
}

// deleteKind deletes all objects of a kind, and returns what is left of them
// (deleteAllContentForGroupVersionResource).
func (c *Controller) deleteKind(ctx context.Context, ns *corev1.Namespace, kind kinds.Kind) Leftover {
	resource := kind.GroupVersionResource()
	before, err := c.list(ctx, ns, kind)
	if err != nil || len(before) == 0 {
		return Leftover{Resource: resource, Err: err}
	}
	grace := PodGrace(before, ns.DeletionTimestamp.Time, c.clock.Now())
	target := podapi.Target{Kind: kind, Namespace: ns.Name}
	_, err = c.collections.DeleteCollection(ctx, target, DeleteOptions(), metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return Leftover{Resource: resource, Count: len(before), Err: err}
	}
	after, err := c.list(ctx, ns, kind)
	if err != nil {
		return Leftover{Resource: resource, Err: err}
	}
	return NewLeftover(ns.Name, resource, after, grace)
}

// list returns the objects of a kind; a kind that is not served has none.
func (c *Controller) list(ctx context.Context, ns *corev1.Namespace, kind kinds.Kind) ([]kinds.Object, error) {
	page, err := c.api.List(ctx, podapi.Target{Kind: kind, Namespace: ns.Name}, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}
