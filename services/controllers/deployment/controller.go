package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller rolls out Deployments.
type Controller struct {
	deployments *view.Copy[*appsv1.Deployment]
	sets        *view.Copy[*appsv1.ReplicaSet]
	pods        *view.Copy[*corev1.Pod]
	writes      control.Resource[*appsv1.Deployment]
	setWrites   control.Resource[*appsv1.ReplicaSet]
	events      control.Recorder
	clock       clock.Clock
	loop        *loop.Loop[view.Key]
}

// workers is how many Deployments are looked at at once, retries how often one that fails is
// tried before it is left until it changes, both as upstream's.
const (
	// workers is how many Deployments are processed at once. retries is how often a failed one is
	// retried before it waits for a change. Both are upstream's.
	workers = 5
	retries = 15
)

// New returns the controller of Deployments.
func New(base control.Base) *Controller {
	c := &Controller{
		deployments: view.Of[*appsv1.Deployment](base.Views, "deployments.apps"),
		sets:        view.Of[*appsv1.ReplicaSet](base.Views, "replicasets.apps"),
		pods:        view.Of[*corev1.Pod](base.Views, "pods"),
		writes:      control.Of[*appsv1.Deployment](base.API, "deployments.apps"),
		setWrites:   control.Of[*appsv1.ReplicaSet](base.API, "replicasets.apps"),
		events:      base.Events("deployment-controller"), clock: base.Clock,
	}
	c.loop = loop.New(loop.Config{Name: "deployment", Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Retries: retries, Log: base.Log}, c.sync)
	c.deployments.OnChange(func(old, now *appsv1.Deployment) { c.loop.Add(view.KeyOf(view.Either(old, now))) })
	watch := ChangeHandler{Deployment: c.deployments.Get, DeploymentsIn: c.deployments.InNamespace, ReplicaSet: c.sets.Get, Enqueue: c.loop.Add}
	c.sets.OnChange(watch.SetChanged)
	c.pods.OnChange(watch.PodChanged)
	return c
}

// Run rolls out until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// sync takes steps for one Deployment until a step creates no ReplicaSet.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	deployment, ok := c.deployments.Get(key)
	if !ok {
		return nil
	}
	v, err := c.claimView(ctx, deployment)
	if err != nil {
		return err
	}
	for {
		plan := Decide(v, c.clock.Now())
		if plan.Create == nil {
			return c.applyPlan(ctx, deployment, plan)
		}
		created, err := c.createSet(ctx, v, plan.Create)
		if err != nil || created == nil {
			return err
		}
		v = AfterCreate(v, created, c.clock.Now())
	}
}

// claimView adopts and releases ReplicaSets and returns the view of a Deployment.
func (c *Controller) claimView(ctx context.Context, deployment *appsv1.Deployment) (View, error) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return View{}, err
	}
	candidates := append(c.sets.ControlledBy(deployment.UID), c.sets.Orphans(deployment.Namespace)...)
	sets, err := control.Claimer[*appsv1.ReplicaSet]{
		Objects: c.setWrites, Owner: deployment, OwnerKind: c.writes.Kind().GroupVersionKind, Selector: selector,
		Fresh: func(ctx context.Context) (kinds.Object, error) {
			return c.writes.Get(ctx, deployment.Namespace, deployment.Name)
		},
	}.Claim(ctx, candidates)
	v := View{Deployment: deployment, Sets: sets, Pods: map[types.UID][]*corev1.Pod{}}
	for _, set := range sets {
		v.Pods[set.UID] = c.pods.ControlledBy(set.UID)
	}
	return v, err
}

// createSet stores a new ReplicaSet. It returns nil if the name is taken by another; the next sync
// uses another name.
func (c *Controller) createSet(ctx context.Context, v View, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	created, err := c.setWrites.Create(ctx, set)
	switch {
	case err == nil:
		if n := replicasOf(created); n > 0 {
			c.events.Event(v.Deployment, corev1.EventTypeNormal, "ScalingReplicaSet", scaledMessage(created, 0, n))
		}
		return created, nil
	case apierrors.IsAlreadyExists(err):
		return c.adoptOrCollide(ctx, v, set)
	case control.IsNamespaceTerminating(err):
		return nil, err
	}
	stored, event := AfterCreateFailed(v, set, err, c.clock.Now())
	c.events.Event(v.Deployment, event.Type, event.Reason, event.Message)
	if _, failed := c.writes.UpdateStatus(ctx, stored); failed != nil {
		return nil, failed
	}
	return nil, err
}

// adoptOrCollide reads the ReplicaSet that has the name. It may be the very one, which the view
// does not show yet; otherwise the collision is counted.
func (c *Controller) adoptOrCollide(ctx context.Context, v View, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	existing, err := c.setWrites.Get(ctx, set.Namespace, set.Name)
	if err != nil {
		return nil, err
	}
	if IsNewSetOf(v.Deployment, existing) {
		return existing, nil
	}
	_, err = c.writes.UpdateStatus(ctx, WithCollision(v.Deployment))
	return nil, err
}

// applyPlan stores what a plan says, the status last.
func (c *Controller) applyPlan(ctx context.Context, deployment *appsv1.Deployment, plan Plan) error {
	for _, event := range plan.Events {
		c.events.Event(deployment, event.Type, event.Reason, event.Message)
	}
	if plan.RolledBack != nil {
		_, err := c.writes.Update(ctx, plan.RolledBack)
		return err
	}
	for _, one := range plan.Scale {
		if _, err := c.setWrites.Update(ctx, one.Set); err != nil {
			return err
		}
		if one.Event != "" {
			c.events.Event(deployment, corev1.EventTypeNormal, "ScalingReplicaSet", one.Event)
		}
	}
	for _, set := range plan.Delete {
		if err := c.setWrites.Delete(ctx, set, metav1.DeleteOptions{}); err != nil && !control.IsGone(err) {
			return err
		}
	}
	if plan.Store != nil {
		if _, err := c.writes.UpdateStatus(ctx, plan.Store); err != nil {
			return err
		}
	}
	if plan.RequeueAfter > 0 {
		c.loop.AddAfter(view.KeyOf(deployment), plan.RequeueAfter)
	}
	return nil
}
