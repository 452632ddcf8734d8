package daemonset

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/history"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Controller keeps a pod of each DaemonSet on each of its nodes.
type Controller struct {
	sets      *view.Copy[*appsv1.DaemonSet]
	nodes     *view.Copy[*corev1.Node]
	owners    control.Owners[*appsv1.DaemonSet]
	revisions *view.Copy[*appsv1.ControllerRevision]
	writes    writes
	events    control.Recorder
	clock     clock.Clock
	loop      *loop.Loop[view.Key]
	failures  *FailureBackoff
}

type writes struct {
	sets      control.Resource[*appsv1.DaemonSet]
	revisions control.Resource[*appsv1.ControllerRevision]
}

const workers = 2

// New returns the controller of DaemonSets.
func New(base control.Base) *Controller {
	events := base.Events("daemonset-controller")
	c := &Controller{
		sets:      view.Of[*appsv1.DaemonSet](base.Views, "daemonsets.apps"),
		nodes:     view.Of[*corev1.Node](base.Views, "nodes"),
		revisions: view.Of[*appsv1.ControllerRevision](base.Views, "controllerrevisions.apps"),
		events:    events, clock: base.Clock,
		failures: NewFailureBackoff(),
		writes: writes{
			sets:      control.Of[*appsv1.DaemonSet](base.API, "daemonsets.apps"),
			revisions: control.Of[*appsv1.ControllerRevision](base.API, "controllerrevisions.apps"),
		},
	}
	c.loop = loop.New(loop.Config{Name: "daemonset", Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.sets.OnChange(func(old, now *appsv1.DaemonSet) {
		if now == nil {
			c.owners.OwnerDeleted(old)
			return
		}
		c.owners.OwnerChanged(now)
	})
	c.nodes.OnChange(c.nodeChanged)
	c.owners = control.Owners[*appsv1.DaemonSet]{
		Kind: c.sets.Kind().GroupVersionKind, Get: c.sets.Get, In: c.sets.InNamespace, Enqueue: c.loop.AddAfter,
		Selector: func(set *appsv1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector },
		Fresh: func(ctx context.Context, key view.Key) (kinds.Object, error) {
			return c.writes.sets.Get(ctx, key.Namespace, key.Name)
		},
		Pods: view.Of[*corev1.Pod](base.Views, "pods"), Clock: base.Clock, Expected: workload.NewExpectations(),
		Writes: control.Pods{Resource: control.Of[*corev1.Pod](base.API, "pods"), Events: events},
	}
	c.owners.Pods.OnChange(c.owners.PodChanged)
	return c
}

// Run keeps the sets until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// nodeChanged queues all sets if a node was added, removed, or changed in a way that matters to
// them.
func (c *Controller) nodeChanged(old, now *corev1.Node) {
	if !AffectsPlacement(old, now) {
		return
	}
	for _, set := range c.sets.All() {
		c.loop.Add(view.KeyOf(set))
	}
}

// sync processes one set.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	set, ok := c.sets.Get(key)
	if !ok {
		c.owners.Expected.Forget(key)
		return nil
	}
	if everything := (metav1.LabelSelector{}); kinds.Equal(set.Spec.Selector, &everything) {
		c.events.Event(set, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || set.DeletionTimestamp != nil {
		return nil //nolint:nilerr // nothing to do about it until somebody changes the set
	}
	kept, err := c.storeRevision(ctx, set, selector)
	if err != nil {
		return err
	}
	now, stale := c.clock.Now(), c.owners.Stale(key)
	pods, err := c.owners.Claim(ctx, set, selector, nil)
	if err != nil {
		return err
	}
	v := View{
		Set: set, Nodes: c.nodes.All(), Pods: pods, Hash: kept.Update.Labels[history.HashLabel], Stale: stale,
		FailedPodDelay: func(node string) time.Duration { return c.failures.Remaining(set.UID, node, c.clock.Steady()) },
	}
	plan := Decide(v, now)
	failed := c.createAndDelete(ctx, set, plan, v.Hash)
	if err := c.storeStatus(ctx, set, plan, kept); err != nil {
		return errors.Join(failed, err)
	}
	if plan.RequeueAfter > 0 {
		c.loop.AddAfter(key, plan.RequeueAfter)
	}
	if failed != nil {
		return failed
	}
	return c.truncateHistory(ctx, set, pods, kept)
}

// storeRevision stores a revision of the template.
func (c *Controller) storeRevision(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector) (history.Kept, error) {
	revisions, err := control.NewClaimer(c.owners, c.writes.revisions, set, selector).
		Claim(ctx, append(c.revisions.ControlledBy(set.UID), c.revisions.Orphans(set.Namespace)...))
	if err != nil {
		return history.Kept{}, err
	}
	return history.Keep(ctx, c.writes.revisions, history.Owner{
		Object: set, Kind: c.sets.Kind().GroupVersionKind, Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		Collisions: set.Status.CollisionCount,
	}, revisions)
}

// createAndDelete creates and deletes pods (syncNodes).
func (c *Controller) createAndDelete(ctx context.Context, set *appsv1.DaemonSet, plan Plan, hash string) error {
	for _, event := range plan.Events {
		c.events.Event(set, event.Type, event.Reason, event.Message)
	}
	for _, node := range plan.Failed {
		c.failures.Increase(set.UID, node, c.clock.Steady())
	}
	create := make([]*corev1.Pod, 0, len(plan.Create))
	for _, node := range plan.Create {
		create = append(create, NewPod(set, node, hash))
	}
	_, err := c.owners.CreateAndDelete(ctx, set, set, create, plan.Delete)
	return err
}

// storeStatus stores a changed status.
func (c *Controller) storeStatus(ctx context.Context, set *appsv1.DaemonSet, plan Plan, kept history.Kept) error {
	plan.Status.CollisionCount = kept.Collisions
	if kinds.Equal(set.Status, plan.Status) {
		return nil
	}
	changed := set.DeepCopy()
	changed.Status = plan.Status
	_, err := c.writes.sets.UpdateStatus(ctx, changed)
	return err
}

// truncateHistory deletes the oldest revisions that no pod has, beyond the history limit.
func (c *Controller) truncateHistory(ctx context.Context, set *appsv1.DaemonSet, pods []*corev1.Pod, kept history.Kept) error {
	used := map[string]bool{kept.Update.Labels[history.HashLabel]: true}
	for _, pod := range pods {
		used[hashOf(pod)] = true
	}
	return history.Truncate(ctx, c.writes.revisions, kept.Revisions, set.Spec.RevisionHistoryLimit,
		func(r *appsv1.ControllerRevision) bool { return used[r.Labels[history.HashLabel]] })
}
