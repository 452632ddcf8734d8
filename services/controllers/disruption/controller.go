package disruption

import (
	"context"
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller keeps the status of budgets, and takes stale conditions back.
type Controller struct {
	api      control.API
	clock    clock.Clock
	kinds    *directory.Directory
	recorder control.Recorder
	log      *slog.Logger
	copies   copies
	client   control.Resource[*policyv1.PodDisruptionBudget]
	budgets  *loop.Loop[view.Key]
	stale    *loop.Loop[view.Key]
}

type copies struct {
	budgets     *view.Copy[*policyv1.PodDisruptionBudget]
	pods        *view.Copy[*corev1.Pod]
	controllers *view.Copy[*corev1.ReplicationController]
	sets        *view.Copy[*appsv1.ReplicaSet]
	deployments *view.Copy[*appsv1.Deployment]
	stateful    *view.Copy[*appsv1.StatefulSet]
}

// New is a controller that has not begun.
func New(base control.Base) *Controller {
	c := &Controller{
		api: base.API, clock: base.Clock, kinds: base.Kinds(), recorder: base.Events("controllermanager"), log: base.Log,
		copies: copies{
			budgets:     view.Of[*policyv1.PodDisruptionBudget](base.Views, "poddisruptionbudgets.policy"),
			pods:        view.Of[*corev1.Pod](base.Views, "pods"),
			controllers: view.Of[*corev1.ReplicationController](base.Views, "replicationcontrollers"),
			sets:        view.Of[*appsv1.ReplicaSet](base.Views, "replicasets.apps"),
			deployments: view.Of[*appsv1.Deployment](base.Views, "deployments.apps"),
			stateful:    view.Of[*appsv1.StatefulSet](base.Views, "statefulsets.apps"),
		},
		client: control.Of[*policyv1.PodDisruptionBudget](base.API, "poddisruptionbudgets.policy"),
	}
	c.budgets = loop.New(loop.Config{Name: "disruption", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.sync)
	c.stale = loop.New(loop.Config{Name: "stale_pod_disruption", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.takeBack)
	c.copies.budgets.OnChange(func(_, now *policyv1.PodDisruptionBudget) {
		if now != nil {
			c.budgets.Add(view.KeyOf(now))
		}
	})
	c.copies.pods.OnChange(c.podChanged)
	return c
}

// Run counts until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return daemon.Run(ctx, c.budgets.Run, c.stale.Run)
}

func (c *Controller) podChanged(old, now *corev1.Pod) {
	for _, pod := range []*corev1.Pod{old, now} {
		if pod == nil {
			continue
		}
		for _, budget := range c.copies.budgets.InNamespace(pod.Namespace) {
			if Selects(budget, pod) {
				c.budgets.Add(view.KeyOf(budget))
			}
		}
	}
	if now == nil {
		return
	}
	if due := Stale(now); !due.IsZero() {
		c.stale.AddAfter(view.KeyOf(now), min(c.clock.Until(due), StaleTimeout))
	}
}

func (c *Controller) sync(ctx context.Context, key view.Key) error {
	budget, found := c.copies.budgets.Get(key)
	if !found {
		return nil
	}
	decision := Decide(c.see(ctx, budget), c.clock.Now())
	c.tell(budget, decision)
	if decision.Changed {
		updated := budget.DeepCopy()
		updated.Status = decision.Status
		if _, err := c.client.UpdateStatus(ctx, updated); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if !decision.Recheck.IsZero() {
		c.budgets.AddAfter(key, min(c.clock.Until(decision.Recheck), DeletionTimeout)+1)
	}
	return decision.Err
}

// tell writes the events that follow from a decision.
func (c *Controller) tell(budget *policyv1.PodDisruptionBudget, decision Decision) {
	for _, pod := range decision.Kept {
		c.recorder.Event(pod, corev1.EventTypeWarning, "NotDeleted",
			"Pod was expected by PDB "+budget.Namespace+"/"+budget.Name+" to be deleted but it wasn't")
	}
	if decision.Err != nil {
		c.recorder.Event(budget, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: "+decision.Err.Error())
	}
}

// see gathers what a budget is about.
func (c *Controller) see(ctx context.Context, budget *policyv1.PodDisruptionBudget) View {
	seen := View{Budget: budget, Scales: map[types.UID]Scale{}}
	for _, pod := range c.copies.pods.InNamespace(budget.Namespace) {
		if Selects(budget, pod) {
			seen.Pods = append(seen.Pods, pod)
		}
	}
	if len(seen.Pods) == 0 {
		c.recorder.Event(budget, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	known := map[types.UID]Scale{}
	for _, pod := range seen.Pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			continue
		}
		scale, found := known[owner.UID]
		if !found {
			scale, found = c.scale(ctx, pod.Namespace, *owner)
			known[owner.UID] = scale
		}
		if !found {
			seen.Unknown = append(seen.Unknown, pod.Name)
			delete(known, owner.UID)
			continue
		}
		seen.Scales[pod.UID] = scale
	}
	return seen
}

// scale is what a pod's controller wants, or for a ReplicaSet what its Deployment does.
func (c *Controller) scale(ctx context.Context, namespace string, owner metav1.OwnerReference) (Scale, bool) {
	key := view.Key{Namespace: namespace, Name: owner.Name}
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	switch group {
	case schema.GroupKind{Kind: "ReplicationController"}:
		if rc, ok := c.copies.controllers.Get(key); ok && rc.UID == owner.UID {
			return Scale{owner.UID, wants(rc.Spec.Replicas)}, true
		}
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		if set, ok := c.copies.stateful.Get(key); ok && set.UID == owner.UID {
			return Scale{owner.UID, wants(set.Spec.Replicas)}, true
		}
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		set, ok := c.copies.sets.Get(key)
		if !ok || set.UID != owner.UID {
			return Scale{}, false
		}
		above := metav1.GetControllerOf(set)
		if above == nil || above.Kind != "Deployment" {
			return Scale{owner.UID, wants(set.Spec.Replicas)}, true
		}
		if d, ok := c.copies.deployments.Get(view.Key{Namespace: namespace, Name: above.Name}); ok && d.UID == above.UID {
			return Scale{above.UID, wants(d.Spec.Replicas)}, true
		}
	default:
		return c.anyScale(ctx, namespace, owner)
	}
	return Scale{}, false
}

// anyScale asks a kind that podfall knows nothing of for its scale.
func (c *Controller) anyScale(ctx context.Context, namespace string, owner metav1.OwnerReference) (Scale, bool) {
	kind, ok := c.kinds.ByGVK(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if !ok {
		return Scale{}, false
	}
	target := podapi.Target{Kind: kind, Namespace: namespace, Name: owner.Name, Subresource: "scale"}
	obj, err := c.api.Get(ctx, target, metav1.GetOptions{})
	if err != nil {
		c.log.InfoContext(ctx, "a controller has no scale", "controller", owner.Kind+" "+owner.Name, "error", err)
		return Scale{}, false
	}
	scale, ok := obj.(*autoscalingv1.Scale)
	if !ok || scale.UID != owner.UID {
		return Scale{}, false
	}
	return Scale{owner.UID, scale.Spec.Replicas}, true
}

func wants(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// takeBack makes a DisruptionTarget False that did not come true.
func (c *Controller) takeBack(ctx context.Context, key view.Key) error {
	pod, found := c.copies.pods.Get(key)
	if !found {
		return nil
	}
	due := Stale(pod)
	if due.IsZero() {
		return nil
	}
	if wait := c.clock.Until(due); wait > 0 {
		c.stale.AddAfter(key, min(wait, StaleTimeout)) // it is longer where a clock is or was wrong
		return nil
	}
	over := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}
	patch, err := podcondition.Patch(pod, "", &over, c.clock.Now())
	if err != nil {
		return err
	}
	target := podapi.Target{Kind: c.copies.pods.Kind(), Namespace: pod.Namespace, Name: pod.Name, Subresource: "status"}
	_, err = c.api.Patch(ctx, target, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
