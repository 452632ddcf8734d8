package statefulset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Controller keeps StatefulSets.
type Controller struct {
	sets      *view.Copy[*appsv1.StatefulSet]
	owners    control.Owners[*appsv1.StatefulSet]
	claims    *view.Copy[*corev1.PersistentVolumeClaim]
	revisions *view.Copy[*appsv1.ControllerRevision]
	writes    writes
	events    control.Recorder
	clock     clock.Clock
	loop      *loop.Loop[view.Key]
}

type writes struct {
	sets      control.Resource[*appsv1.StatefulSet]
	claims    control.Resource[*corev1.PersistentVolumeClaim]
	revisions control.Resource[*appsv1.ControllerRevision]
}

const workers = 5

// New returns the controller of StatefulSets.
func New(base control.Base) *Controller {
	c := &Controller{
		sets:      view.Of[*appsv1.StatefulSet](base.Views, "statefulsets.apps"),
		claims:    view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"),
		revisions: view.Of[*appsv1.ControllerRevision](base.Views, "controllerrevisions.apps"),
		events:    base.Events("statefulset-controller"), clock: base.Clock,
		writes: writes{
			sets:      control.Of[*appsv1.StatefulSet](base.API, "statefulsets.apps"),
			claims:    control.Of[*corev1.PersistentVolumeClaim](base.API, "persistentvolumeclaims"),
			revisions: control.Of[*appsv1.ControllerRevision](base.API, "controllerrevisions.apps"),
		},
	}
	c.loop = loop.New(loop.Config{Name: "statefulset", Metrics: base.Metrics, Clock: base.Clock, Workers: workers, Log: base.Log}, c.sync)
	c.sets.OnChange(func(old, now *appsv1.StatefulSet) { c.loop.Add(view.KeyOf(view.Either(old, now))) })
	c.owners = control.Owners[*appsv1.StatefulSet]{
		Kind: c.sets.Kind().GroupVersionKind, Get: c.sets.Get, In: c.sets.InNamespace, Enqueue: c.loop.AddAfter,
		Selector: func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector },
		Fresh: func(ctx context.Context, key view.Key) (kinds.Object, error) {
			return c.writes.sets.Get(ctx, key.Namespace, key.Name)
		},
		Pods: view.Of[*corev1.Pod](base.Views, "pods"), Clock: base.Clock, Expected: workload.NewExpectations(),
		Writes: control.Pods{Resource: control.Of[*corev1.Pod](base.API, "pods"), Events: c.events},
	}
	c.owners.Pods.OnChange(c.owners.PodChanged)
	return c
}

// Run keeps the sets until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// sync syncs one set.
func (c *Controller) sync(ctx context.Context, key view.Key) error {
	set, ok := c.sets.Get(key)
	if !ok {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil //nolint:nilerr // an invalid selector needs a change of the set
	}
	pods, err := c.owners.Claim(ctx, set, selector, func(orphan *corev1.Pod) bool {
		return strings.HasPrefix(orphan.Name, set.Name+"-") && Ordinal(orphan, set) >= 0 // others have no name of the set
	})
	if err != nil {
		return err
	}
	v, kept, err := c.buildView(ctx, set, selector, pods)
	if err != nil {
		return err
	}
	plan := Decide(v, c.clock.Now())
	failed := c.applyPlan(ctx, set, &plan)
	if !kinds.Equal(set.Status, plan.Status) {
		changed := set.DeepCopy()
		changed.Status = plan.Status
		if _, err := c.writes.sets.UpdateStatus(ctx, changed); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	if plan.RequeueAfter > 0 {
		c.loop.AddAfter(key, plan.RequeueAfter)
	}
	return c.truncateHistory(ctx, set, pods, kept)
}

// buildView stores a revision of the set's template and returns the input of a decision.
func (c *Controller) buildView(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector, pods []*corev1.Pod) (View, history.Kept, error) {
	v := View{Set: set, Pods: pods, Claims: map[string]*corev1.PersistentVolumeClaim{}}
	revisions, err := control.NewClaimer(c.owners, c.writes.revisions, set, selector).
		Claim(ctx, append(c.revisions.ControlledBy(set.UID), c.revisions.Orphans(set.Namespace)...))
	if err != nil {
		return v, history.Kept{}, err
	}
	kept, err := history.Keep(ctx, c.writes.revisions, history.Owner{
		Object: set, Kind: c.sets.Kind().GroupVersionKind, Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		Collisions: set.Status.CollisionCount,
	}, revisions)
	if err != nil {
		return v, kept, err
	}
	v.Collisions = kept.Collisions
	v.Update = Revision{Name: kept.Update.Name, Template: &set.Spec.Template}
	v.Current = v.Update
	for _, revision := range kept.Revisions {
		if revision.Name == set.Status.CurrentRevision && revision.Name != v.Update.Name {
			template, err := history.Template(revision)
			if err != nil {
				return v, kept, err
			}
			v.Current = Revision{Name: revision.Name, Template: template}
		}
	}
	for _, claim := range c.claims.InNamespace(set.Namespace) {
		v.Claims[claim.Name] = claim
	}
	return v, kept, nil
}

// applyPlan carries out a plan.
func (c *Controller) applyPlan(ctx context.Context, set *appsv1.StatefulSet, plan *Plan) error {
	for _, event := range plan.Events {
		c.events.Event(set, event.Type, event.Reason, event.Message)
	}
	if err := c.applyClaims(ctx, set, plan); err != nil {
		return err
	}
	_, failed := control.SlowStart(len(plan.Create), func(i int) error {
		pod := plan.Create[i]
		_, err := c.owners.Writes.Create(ctx, pod)
		if !apierrors.IsAlreadyExists(err) && !control.IsNamespaceTerminating(err) {
			c.recordResult(set, "create", pod.Name, err)
		}
		return err
	})
	for _, pod := range plan.Repair {
		_, err := c.owners.Writes.Update(ctx, pod)
		c.recordResult(set, "update", pod.Name, err)
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, control.Parallel(len(plan.Delete), func(i int) error {
		err := c.owners.Writes.Delete(ctx, plan.Delete[i], metav1.DeleteOptions{})
		if control.IsGone(err) {
			return nil
		}
		c.recordResult(set, "delete", plan.Delete[i].Name, err)
		return err
	}, func() {}))
}

// applyClaims creates missing claims and updates the owners of others.
func (c *Controller) applyClaims(ctx context.Context, set *appsv1.StatefulSet, plan *Plan) error {
	var failed error
	for _, claim := range plan.CreateClaims {
		_, err := c.writes.claims.Create(ctx, claim)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		pod := podNameOf(claim, set)
		if err != nil {
			c.events.Event(set, corev1.EventTypeWarning, "FailedCreate",
				fmt.Sprintf("create Claim %s for Pod %s in StatefulSet %s failed error: %v", claim.Name, pod, set.Name, err))
		} else {
			c.events.Event(set, corev1.EventTypeNormal, "SuccessfulCreate",
				fmt.Sprintf("create Claim %s Pod %s in StatefulSet %s success", claim.Name, pod, set.Name))
		}
		failed = errors.Join(failed, err)
	}
	for _, claim := range plan.UpdateClaims {
		if _, err := c.writes.claims.Update(ctx, claim); err != nil && !control.IsGone(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// podNameOf is the name of the claim's pod.
func podNameOf(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) string {
	at := strings.LastIndex(claim.Name, "-"+set.Name+"-")
	return claim.Name[at+1:]
}

// recordResult records an event for a create, update or delete of a pod, or for its failure.
func (c *Controller) recordResult(set *appsv1.StatefulSet, verb, pod string, err error) {
	reason := strings.ToUpper(verb[:1]) + verb[1:]
	if err != nil {
		c.events.Event(set, corev1.EventTypeWarning, "Failed"+reason, fmt.Sprintf("%s Pod %s in StatefulSet %s failed error: %v", verb, pod, set.Name, err))
		return
	}
	c.events.Event(set, corev1.EventTypeNormal, "Successful"+reason, fmt.Sprintf("%s Pod %s in StatefulSet %s successful", verb, pod, set.Name))
}

// truncateHistory deletes the oldest revisions without pods beyond the history limit.
func (c *Controller) truncateHistory(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, kept history.Kept) error {
	used := map[string]bool{kept.Update.Name: true, set.Status.CurrentRevision: true, set.Status.UpdateRevision: true}
	for _, pod := range pods {
		used[revisionOf(pod)] = true
	}
	return history.Truncate(ctx, c.writes.revisions, kept.Revisions, set.Spec.RevisionHistoryLimit,
		func(r *appsv1.ControllerRevision) bool { return used[r.Name] })
}
