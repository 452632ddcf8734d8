package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// API is what the scheduler asks of the cluster.
type API interface {
	Follow(ctx context.Context, target podapi.Target, options metav1.ListOptions, sink podapi.Sink) error
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.CreateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, options metav1.PatchOptions) (kinds.Object, error)
}

// Recorder writes events about objects; it never waits for them to be stored.
type Recorder interface {
	Event(about kinds.Object, eventType, reason, message string)
}

// Controller keeps a State up to date, decides about every pod in it that has no node,
// and binds.
type Controller struct {
	api      API
	recorder Recorder
	log      *slog.Logger
	inbox    chan input
	// outbox holds decisions that are to be carried out.
	outbox chan verdict
}

// binders is how many decisions may be carried out at once.
const binders = 16

// New is a scheduler that has not begun; see Run.
func New(api API, recorder Recorder, log *slog.Logger) *Controller {
	return &Controller{
		api: api, recorder: recorder, log: log,
		inbox: make(chan input), outbox: make(chan verdict, binders),
	}
}

// input changes what the scheduler believes.
type input func(*State)

// verdict is a decision about a pod.
type verdict struct {
	pod *corev1.Pod
	Decision
}

// Run schedules until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	for kind, sink := range map[string]podapi.Sink{
		"nodes": sink[*corev1.Node]{ctx: ctx, inbox: c.inbox, replace: replaceNodes, set: (*State).SetNode, remove: removeNode},
		"pods":  sink[*corev1.Pod]{ctx: ctx, inbox: c.inbox, replace: replacePods, set: (*State).SetPod, remove: (*State).RemovePod},
	} {
		parts.Go(func() { _ = c.api.Follow(ctx, podapi.Target{Kind: kindOf(kind)}, metav1.ListOptions{}, sink) })
	}
	for range binders {
		parts.Go(func() { c.carryOutAll(ctx) })
	}
	state := NewState()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-c.inbox:
			change(state)
			c.schedule(ctx, state)
		}
	}
}

// schedule decides about every pod that can be decided about now. While the binders are
// busy it takes in what has changed.
func (c *Controller) schedule(ctx context.Context, state *State) {
	for pod := state.Next(); pod != nil; pod = state.Next() {
		decision := Decide(pod, state.Nodes())
		switch decision.Outcome {
		case Bind:
			state.Place(pod, decision.Node)
		case Wait:
			state.Wait(pod)
		case Skip:
		case Gated:
			continue
		}
		for sent := false; !sent; {
			select {
			case <-ctx.Done():
				return
			case change := <-c.inbox:
				change(state)
			case c.outbox <- verdict{pod, decision}:
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
				c.bind(ctx, next.pod, next.Node)
			case Wait:
				c.refused(ctx, next.pod, next.Message)
			case Skip:
				c.recorder.Event(next.pod, corev1.EventTypeWarning, "FailedScheduling", next.Message)
			case Gated:
			}
		}
	}
}

// refused tells why the pod stays pending, once per reason.
func (c *Controller) refused(ctx context.Context, pod *corev1.Pod, message string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Message == message {
			return
		}
	}
	c.recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", message)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": corev1.PodScheduled, "status": corev1.ConditionFalse,
			"reason": corev1.PodReasonUnschedulable, "message": message,
		}}},
	})
	if err == nil {
		_, err = c.api.Patch(ctx, target(pod, "status"), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		c.log.WarnContext(ctx, "could not say why a pod is pending", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
}

// bind stores one decision. A refused one is taken back: a pod that is gone, deleting
// or bound by someone else (API-80) is dropped, any other is decided about again.
func (c *Controller) bind(ctx context.Context, pod *corev1.Pod, node string) {
	_, err := c.api.Create(ctx, target(pod, "binding"), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	name := pod.Namespace + "/" + pod.Name
	if err == nil {
		c.recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned "+name+" to "+node)
		return
	}
	c.log.WarnContext(ctx, "binding refused", "pod", name, "node", node, "error", err)
	again := !apierrors.IsNotFound(err) && !apierrors.IsConflict(err)
	c.sendBack(ctx, func(state *State) {
		state.Free(pod.UID)
		if again {
			state.Reconsider(pod)
		}
	})
}

func (c *Controller) sendBack(ctx context.Context, change input) {
	select {
	case <-ctx.Done():
	case c.inbox <- change:
	}
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

// sink passes what a Follow sees to the scheduler's loop.
type sink[T kinds.Object] struct {
	ctx     context.Context //nolint:containedctx // Follow's, and ends with it
	inbox   chan<- input
	replace func(*State, []T)
	set     func(*State, T)
	remove  func(*State, T)
}

// Replace implements podapi.Sink.
func (s sink[T]) Replace(items []kinds.Object, _ string) {
	typed := make([]T, 0, len(items))
	for _, item := range items {
		if obj, ok := item.(T); ok {
			typed = append(typed, obj)
		}
	}
	s.send(func(state *State) { s.replace(state, typed) })
}

// Apply implements podapi.Sink.
func (s sink[T]) Apply(event watch.Event) {
	obj, ok := event.Object.(T)
	if !ok {
		return
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		s.send(func(state *State) { s.set(state, obj) })
	case watch.Deleted:
		s.send(func(state *State) { s.remove(state, obj) })
	case watch.Bookmark, watch.Error:
	}
}

func (s sink[T]) send(change input) {
	select {
	case <-s.ctx.Done():
	case s.inbox <- change:
	}
}
