package replicaset

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Controller runs the sets of one kind.
type Controller struct {
	sets   Sets
	owners control.Owners[*appsv1.ReplicaSet]
	clock  clock.Clock
	loop   *loop.Loop[view.Key]
}

// Sets are the ReplicaSets, or objects that are read and written as such.
type Sets struct {
	Kind kinds.Kind
	Get  func(view.Key) (*appsv1.ReplicaSet, bool)
	In   func(namespace string) []*appsv1.ReplicaSet
	// Siblings returns the sets of the same controller.
	Siblings func(*appsv1.ReplicaSet) []*appsv1.ReplicaSet
	// Fresh reads a set from the API.
	Fresh func(ctx context.Context, key view.Key) (kinds.Object, error)
	// UpdateStatus stores the status of a set. Object returns the object for events.
	UpdateStatus func(context.Context, *appsv1.ReplicaSet) error
	Object       func(*appsv1.ReplicaSet) kinds.Object
	// NoTerminatingReplicas says that the status has no field for terminating pods.
	NoTerminatingReplicas bool
}

// workers is how many sets are processed at the same time.
const workers = 5

// New returns the controller of ReplicaSets.
func New(base control.Base) *Controller {
	copies := view.Of[*appsv1.ReplicaSet](base.Views, "replicasets.apps")
	client := control.Of[*appsv1.ReplicaSet](base.API, "replicasets.apps")
	c := NewFor(base, "replicaset-controller", Sets{
		Kind: copies.Kind(), Get: copies.Get, In: copies.InNamespace,
		Siblings: func(set *appsv1.ReplicaSet) []*appsv1.ReplicaSet {
			if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
				return copies.ControlledBy(owner.UID)
			}
			return nil
		},
		Fresh: func(ctx context.Context, key view.Key) (kinds.Object, error) {
			return client.Get(ctx, key.Namespace, key.Name)
		},
		UpdateStatus: func(ctx context.Context, set *appsv1.ReplicaSet) error {
			_, err := client.UpdateStatus(ctx, set)
			return err
		},
		Object: func(set *appsv1.ReplicaSet) kinds.Object { return set },
	})
	copies.OnChange(c.Changed)
	return c
}

// NewFor returns a controller of sets of another kind, whose events name component.
func NewFor(base control.Base, component string, sets Sets) *Controller {
	c := &Controller{sets: sets, clock: base.Clock}
	c.loop = loop.New(loop.Config{Name: strings.TrimSuffix(sets.Kind.Resource, "s"), Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.owners = control.Owners[*appsv1.ReplicaSet]{
		Kind: sets.Kind.GroupVersionKind, Get: sets.Get, In: sets.In, Fresh: sets.Fresh, Enqueue: c.loop.AddAfter,
		Selector: func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector },
		Pods:     view.Of[*corev1.Pod](base.Views, "pods"), Clock: base.Clock, Expected: workload.NewExpectations(),
		Writes: control.Pods{Resource: control.Of[*corev1.Pod](base.API, "pods"), Events: base.Events(component)},
	}
	c.owners.Pods.OnChange(c.owners.PodChanged)
	return c
}

// Changed queues a set. now is nil for a deleted one, and only then old matters.
func (c *Controller) Changed(old, now *appsv1.ReplicaSet) {
	if now == nil {
		c.owners.OwnerDeleted(old)
		return
	}
	c.owners.OwnerChanged(now)
}

// Run runs the controller until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// sync processes one set (syncReplicaSet).
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	set, ok := c.sets.Get(key)
	if !ok {
		c.owners.Expected.Forget(key)
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil //nolint:nilerr // nothing to do about it until somebody changes the set
	}
	now := c.clock.Now()
	v := View{Set: set, Stale: c.owners.Stale(key)}
	pods, err := c.owners.Claim(ctx, set, selector, func(orphan *corev1.Pod) bool { return !workload.IsFinished(orphan) })
	if err != nil {
		return err
	}
	for _, pod := range pods {
		switch {
		case workload.IsActive(pod):
			v.Active = append(v.Active, pod)
		case workload.IsTerminating(pod):
			v.Terminating = append(v.Terminating, pod)
		}
	}
	v.Related = func() []*corev1.Pod { return c.related(set) }
	failed := c.applyPlan(ctx, set, Decide(v, now))
	if err := c.storeStatus(ctx, set, Status(v, failed, now)); err != nil {
		return err
	}
	if wait := RecheckAfter(v, now); wait > 0 {
		c.loop.AddAfter(key, wait)
	}
	return failed
}

// related returns the pods of the set and of its siblings.
func (c *Controller) related(set *appsv1.ReplicaSet) []*corev1.Pod {
	siblings := c.sets.Siblings(set)
	if len(siblings) == 0 {
		return c.owners.Pods.ControlledBy(set.UID)
	}
	var related []*corev1.Pod
	for _, sibling := range siblings {
		related = append(related, c.owners.Pods.ControlledBy(sibling.UID)...)
	}
	return related
}

// applyPlan creates and deletes pods.
func (c *Controller) applyPlan(ctx context.Context, set *appsv1.ReplicaSet, plan Plan) error {
	create := make([]*corev1.Pod, plan.Create)
	for i := range create {
		create[i] = workload.NewPod(&set.Spec.Template, set, c.sets.Kind.GroupVersionKind)
	}
	_, err := c.owners.CreateAndDelete(ctx, set, c.sets.Object(set), create, plan.Delete)
	return err
}

// storeStatus stores a changed status.
func (c *Controller) storeStatus(ctx context.Context, set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if c.sets.NoTerminatingReplicas {
		status.TerminatingReplicas = nil
	}
	if kinds.Equal(set.Status, status) {
		return nil
	}
	changed := set.DeepCopy()
	changed.Status = status
	return c.sets.UpdateStatus(ctx, changed)
}
