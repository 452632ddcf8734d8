package replicaset

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Controller keeps the sets of one kind.
type Controller struct {
	sets     Sets
	pods     *view.Copy[*corev1.Pod]
	writes   control.Pods
	clock    clock.Clock
	loop     *loop.Loop[view.Key]
	expected *workload.Expectations
}

// Sets are the ReplicaSets, or what is read and written as such.
type Sets struct {
	Kind kinds.Kind
	Get  func(view.Key) (*appsv1.ReplicaSet, bool)
	In   func(namespace string) []*appsv1.ReplicaSet
	// Siblings are the sets of the same controller.
	Siblings func(*appsv1.ReplicaSet) []*appsv1.ReplicaSet
	// Fresh reads a set from the API.
	Fresh func(ctx context.Context, key view.Key) (kinds.Object, error)
	// UpdateStatus stores the status of a set; Event is about it.
	UpdateStatus func(context.Context, *appsv1.ReplicaSet) error
	Object       func(*appsv1.ReplicaSet) kinds.Object
	// Uncounted says that the status has no place for terminating pods.
	Uncounted bool
}

// workers is how many sets are looked at at once.
const workers = 5

// New is the controller of ReplicaSets.
func New(base control.Base) *Controller {
	copies := view.Of[*appsv1.ReplicaSet](base.Views, "replicasets.apps")
	client := control.Of[*appsv1.ReplicaSet](base.API, "replicasets.apps")
	c := Over(base, "replicaset-controller", Sets{
		Kind: copies.Kind(), Get: copies.Get, In: copies.In,
		Siblings: func(set *appsv1.ReplicaSet) []*appsv1.ReplicaSet {
			if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
				return copies.Controlled(owner.UID)
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
	copies.On(func(old, now *appsv1.ReplicaSet) { c.Changed(view.Either(old, now)) })
	return c
}

// Over is a controller of sets of another kind, that speaks as component.
func Over(base control.Base, component string, sets Sets) *Controller {
	c := &Controller{
		sets: sets, pods: view.Of[*corev1.Pod](base.Views, "pods"), clock: base.Clock, expected: workload.NewExpectations(),
		writes: control.Pods{Resource: control.Of[*corev1.Pod](base.API, "pods"), Events: base.Events(component)},
	}
	c.loop = loop.New(loop.Config{Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.pods.On(c.podChanged)
	return c
}

// Changed has a set looked at.
func (c *Controller) Changed(set *appsv1.ReplicaSet) { c.loop.Add(view.KeyOf(set)) }

// Run keeps the sets until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// podChanged has the sets looked at that a change of a pod is about.
func (c *Controller) podChanged(old, now *corev1.Pod) {
	touch := workload.Touched(c.sets.Kind.GroupVersionKind, old, now)
	pod := view.Either(old, now)
	if touch.Former != nil {
		c.loop.Add(view.Key{Namespace: pod.Namespace, Name: touch.Former.Name})
	}
	if touch.Owner != nil {
		key := view.Key{Namespace: pod.Namespace, Name: touch.Owner.Name}
		if set, ok := c.sets.Get(key); ok && set.UID != touch.Owner.UID {
			return // of an older set of this name
		}
		if touch.Came && !touch.Left {
			c.expected.Created(key)
		}
		if touch.Left {
			c.expected.Deleted(key, pod.UID)
		}
		c.loop.Add(key)
	}
	if !touch.Orphan {
		return
	}
	for _, set := range c.sets.In(pod.Namespace) {
		if selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			c.loop.Add(view.KeyOf(set))
		}
	}
}

// sync looks at one set (syncReplicaSet).
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	set, ok := c.sets.Get(key)
	if !ok {
		c.expected.Forget(key)
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil //nolint:nilerr // nothing to do about it until somebody changes the set
	}
	now := c.clock.Now()
	v := View{Set: set, Stale: !c.expected.Met(key, now)}
	if v.Stale {
		c.loop.AddAfter(key, c.expected.Left(key, now)+time.Second)
	}
	pods, err := c.claim(ctx, set, selector)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		switch {
		case workload.Active(pod):
			v.Active = append(v.Active, pod)
		case workload.Terminating(pod):
			v.Terminating = append(v.Terminating, pod)
		}
	}
	v.Related = func() []*corev1.Pod { return c.related(set) }
	failed := c.carryOut(ctx, set, Decide(v, now))
	if err := c.tell(ctx, set, Status(v, failed, now)); err != nil {
		return err
	}
	if wait := Recheck(v, now); wait > 0 {
		c.loop.AddAfter(key, wait)
	}
	return failed
}

// claim is the set's pods, after adoption and release. Finished pods are left where they are.
func (c *Controller) claim(ctx context.Context, set *appsv1.ReplicaSet, selector labels.Selector) ([]*corev1.Pod, error) {
	key := view.KeyOf(set)
	candidates := c.pods.Controlled(set.UID)
	for _, orphan := range c.pods.Orphans(set.Namespace) {
		if !workload.Finished(orphan) {
			candidates = append(candidates, orphan)
		}
	}
	return control.Claimer[*corev1.Pod]{
		Objects: c.writes.Resource, Owner: set, OwnerKind: c.sets.Kind.GroupVersionKind, Selector: selector,
		Fresh: func(ctx context.Context) (kinds.Object, error) { return c.sets.Fresh(ctx, key) },
	}.Claim(ctx, candidates)
}

// related is the pods of the set and of its siblings.
func (c *Controller) related(set *appsv1.ReplicaSet) []*corev1.Pod {
	siblings := c.sets.Siblings(set)
	if len(siblings) == 0 {
		return c.pods.Controlled(set.UID)
	}
	var related []*corev1.Pod
	for _, sibling := range siblings {
		related = append(related, c.pods.Controlled(sibling.UID)...)
	}
	return related
}

// carryOut makes and deletes pods.
func (c *Controller) carryOut(ctx context.Context, set *appsv1.ReplicaSet, plan Plan) error {
	key := view.KeyOf(set)
	switch {
	case plan.Create > 0:
		return c.create(ctx, set, plan.Create)
	case len(plan.Delete) > 0:
		uids := make([]types.UID, 0, len(plan.Delete))
		for _, pod := range plan.Delete {
			uids = append(uids, pod.UID)
		}
		c.expected.Deletions(key, uids, c.clock.Now())
		return control.AtOnce(len(plan.Delete), func(i int) error {
			err := c.writes.Remove(ctx, c.sets.Object(set), plan.Delete[i])
			if err != nil {
				c.expected.Deleted(key, plan.Delete[i].UID)
			}
			if control.Gone(err) {
				return nil
			}
			return err
		}, func() {})
	}
	return nil
}

func (c *Controller) create(ctx context.Context, set *appsv1.ReplicaSet, n int) error {
	key := view.KeyOf(set)
	c.expected.Creations(key, n, c.clock.Now())
	made, err := control.SlowStart(n, func(int) error {
		_, err := c.writes.Make(ctx, c.sets.Object(set), workload.PodOf(&set.Spec.Template, set, c.sets.Kind.GroupVersionKind))
		return err
	})
	for range n - made {
		c.expected.Created(key)
	}
	if control.Closing(err) {
		return nil
	}
	return err
}

// tell stores a status that says something new.
func (c *Controller) tell(ctx context.Context, set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if c.sets.Uncounted {
		status.TerminatingReplicas = nil
	}
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	changed := set.DeepCopy()
	changed.Status = status
	return c.sets.UpdateStatus(ctx, changed)
}
