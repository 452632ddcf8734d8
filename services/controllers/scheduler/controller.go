package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller keeps a State up to date, decides about every pod in it that has no node,
// and binds.
type Controller struct {
	api      control.API
	recorder control.Recorder
	clock    clock.Clock
	log      *slog.Logger
	inbox    *mailbox
	// outbox holds decisions that are to be carried out.
	outbox chan verdict
	counts counts
}

// binders is how many decisions may be carried out at once.
const binders = 16

// New is a scheduler that has not begun; see Run.
func New(base control.Base) *Controller {
	c := &Controller{
		api: base.API, recorder: base.Events("default-scheduler"), clock: base.Clock, log: base.Log,
		inbox: newMailbox(), outbox: make(chan verdict, binders),
		counts: newCounts(base.Metrics),
	}
	base.Metrics.OnCollect(c.lookUp)
	listen(c.inbox, view.Of[*corev1.Node](base.Views, "nodes"), (*State).SetNode, removeNode)
	listen(c.inbox, view.Of[*corev1.Pod](base.Views, "pods"), (*State).SetPod, (*State).RemovePod)
	listen(c.inbox, view.Of[*corev1.Namespace](base.Views, "namespaces"), setNamespace, removeNamespace)
	listen(c.inbox, view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"), (*State).SetClaim, (*State).RemoveClaim)
	listen(c.inbox, view.Of[*corev1.PersistentVolume](base.Views, "persistentvolumes"), (*State).SetVolume, (*State).RemoveVolume)
	listen(c.inbox, view.Of[*storagev1.StorageClass](base.Views, "storageclasses.storage.k8s.io"), setClass, removeClass)
	listen(c.inbox, view.Of[*policyv1.PodDisruptionBudget](base.Views, "poddisruptionbudgets.policy"), setBudget, removeBudget)
	return c
}

// lookUp has the loop say how many pods wait, if it has time.
func (c *Controller) lookUp() {
	said := make(chan struct{})
	c.inbox.put(func(state *State) {
		c.counts.waits(state.Waiting())
		close(said)
	})
	limit := clock.Clock{}.Timer(time.Second)
	defer limit.Stop()
	select {
	case <-said:
	case <-limit.C:
	}
}

// listen puts what becomes of a kind's objects into the mailbox.
func listen[T kinds.Object](inbox *mailbox, from *view.Copy[T], set, remove func(*State, T)) {
	from.OnChange(func(old, now T) {
		var none T
		if any(now) == any(none) {
			inbox.put(func(state *State) { remove(state, old) })
			return
		}
		inbox.put(func(state *State) { set(state, now) })
	})
}

// input changes what the scheduler believes.
type input func(*State)

// verdict is a decision about a pod.
type verdict struct {
	pod *corev1.Pod
	Decision
	// tries is how often it was decided about the pod, began when it was the last time, on
	// the wall.
	tries int
	began time.Time
}

// Run schedules until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	for range binders {
		parts.Go(func() { c.carryOutAll(ctx) })
	}
	state := NewState()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.inbox.wake:
			for change := c.inbox.next(); change != nil; change = c.inbox.next() {
				change(state)
				c.schedule(ctx, state)
			}
		}
	}
}

// schedule decides about every pod that can be decided about now. While the binders are
// busy it takes in what has changed.
func (c *Controller) schedule(ctx context.Context, state *State) {
	for pod := state.Next(); pod != nil; pod = state.Next() {
		began, tries := clock.Clock{}.Now(), state.Tries(pod.UID)
		decision := Decide(pod, state.World())
		switch decision.Outcome {
		case Bind:
			state.Place(pod, decision.Node)
		case Preempt:
			state.Wait(pod)
			state.Nominate(pod, decision.Node, decision.Victims)
		case Wait, Provision:
			state.Wait(pod)
		case Skip:
		case Gated:
			continue
		}
		for sent := false; !sent; {
			select {
			case <-ctx.Done():
				return
			case <-c.inbox.wake:
				c.inbox.drain(state)
			case c.outbox <- verdict{pod, decision, tries, began}:
				sent = true
			}
		}
	}
}

// carryOutAll carries out decisions until ctx ends.
func (c *Controller) carryOutAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-c.outbox:
			switch next.Outcome {
			case Bind:
				c.bind(ctx, next)
			case Wait:
				c.counts.attempted(resultUnschedulable, next.began)
				c.refused(ctx, next.pod, next.Message, "")
			case Preempt:
				c.preempt(ctx, next)
			case Provision:
				c.provision(ctx, next)
			case Skip:
				c.recorder.Event(next.pod, corev1.EventTypeWarning, "FailedScheduling", next.Message)
			case Gated:
			}
		}
	}
}

// refused tells why the pod stays pending, once per reason, and which node is kept for it
// unless that is empty.
func (c *Controller) refused(ctx context.Context, pod *corev1.Pod, message, nominated string) {
	condition := podcondition.Find(pod, corev1.PodScheduled)
	if condition != nil && condition.Message == message && nominated == "" {
		return
	}
	c.recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", message)
	status := map[string]any{"conditions": []map[string]any{{
		"type": corev1.PodScheduled, "status": corev1.ConditionFalse,
		"reason": corev1.PodReasonUnschedulable, "message": message,
	}}}
	if nominated != "" {
		status["nominatedNodeName"] = nominated
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, err = c.api.Patch(ctx, target(pod, "status"), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		c.log.WarnContext(ctx, "could not say why a pod is pending", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
}

// preempt asks the victims to go, as gracefully as they want to, and keeps the node.
func (c *Controller) preempt(ctx context.Context, next verdict) {
	c.counts.attempted(resultUnschedulable, next.began)
	c.counts.preemptions.Add(1)
	for _, victim := range next.Victims {
		if victim.DeletionTimestamp != nil {
			continue
		}
		if err := c.evict(ctx, victim); err != nil && !apierrors.IsNotFound(err) {
			c.log.WarnContext(ctx, "could not preempt a pod", "pod", victim.Namespace+"/"+victim.Name, "error", err)
			c.inbox.put(func(state *State) { state.Spare(victim.UID) })
			continue
		}
		c.counts.victims.Add(1)
		c.recorder.Event(victim, corev1.EventTypeNormal, "Preempted", fmt.Sprintf("Preempted by pod %s on node %s", next.pod.UID, next.Node))
	}
	c.refused(ctx, next.pod, next.Message, next.Node)
}

// evict marks a victim as disrupted, and deletes it.
func (c *Controller) evict(ctx context.Context, victim *corev1.Pod) error {
	disrupted := podcondition.Disruption(corev1.PodReasonPreemptionByScheduler,
		"default-scheduler: preempting to accommodate a higher priority pod")
	patch, err := podcondition.Patch(victim, "", &disrupted, c.clock.Now())
	if err == nil && patch != nil {
		_, err = c.api.Patch(ctx, target(victim, "status"), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return err
	}
	_, err = c.api.Delete(ctx, target(victim, ""), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
	return err
}

// provision tells claims of the node of their first consumer.
func (c *Controller) provision(ctx context.Context, next verdict) {
	for _, claim := range next.Claims {
		if claim.Annotations[selectedNode] == next.Node {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": claim.UID, "annotations": map[string]string{selectedNode: next.Node},
		}})
		if err == nil {
			where := podapi.Target{Kind: kindOf("persistentvolumeclaims"), Namespace: claim.Namespace, Name: claim.Name}
			_, err = c.api.Patch(ctx, where, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			c.log.WarnContext(ctx, "could not choose a node for a claim", "claim", claim.Namespace+"/"+claim.Name, "error", err)
		}
	}
}

// bind stores one decision. A refused one is taken back: a pod that is gone, deleting
// or bound by someone else (API-80) is dropped, any other is decided about again.
func (c *Controller) bind(ctx context.Context, next verdict) {
	pod, node := next.pod, next.Node
	_, err := c.api.Create(ctx, target(pod, "binding"), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	name := pod.Namespace + "/" + pod.Name
	if err == nil {
		c.counts.attempted(resultScheduled, next.began)
		c.counts.bound(next.tries, c.clock.Since(pod.CreationTimestamp.Time))
		c.recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned "+name+" to "+node)
		return
	}
	c.counts.attempted(resultError, next.began)
	c.log.WarnContext(ctx, "binding refused", "pod", name, "node", node, "error", err)
	again := !apierrors.IsNotFound(err) && !apierrors.IsConflict(err)
	c.inbox.put(func(state *State) {
		state.Free(pod.UID)
		if again {
			state.Reconsider(pod)
		}
	})
}

func target(pod *corev1.Pod, subresource string) podapi.Target {
	return podapi.Target{Kind: kindOf("pods"), Namespace: pod.Namespace, Name: pod.Name, Subresource: subresource}
}

func kindOf(resource string) kinds.Kind {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		panic("no kind " + resource) // the table of kinds has lost a row
	}
	return kind
}
