package sim

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// apiClient is the apiserver to a kubelet's tasks. It implements status.API and node.API, and records what
// the kubelet says and the apiserver accepts, as the product does.
type apiClient struct{ k *kubeletProcess }

// request asks the apiserver and waits for the answer.
func (c apiClient) request(ctx context.Context, ask Ask) (got Outcome) {
	if deadline, ok := ctx.Deadline(); ok {
		ask.Limit = max(deadline.Sub(c.k.incarnation.now), 1)
	}
	answered := make(chan struct{})
	c.k.request(c.k.incarnation.now, ask, c.k.out, func(_ time.Time, answer Outcome, _ Out) {
		got = answer
		close(answered)
	})
	if err := c.k.tasks.Wait(ctx, answered); err != nil {
		return Outcome{Err: err}
	}
	return got
}

// objectOf returns the object that an answer holds.
func objectOf(got Outcome) (kinds.Object, error) {
	if got.Err != nil {
		return nil, got.Err
	}
	obj, ok := got.Object.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("the API answered with a %T", got.Object)
	}
	return obj, nil
}

// Get implements status.API.
func (c apiClient) Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error) {
	return objectOf(c.request(ctx, Ask{Verb: proto.VerbGet, Target: target, Options: &opts}))
}

// Create implements node.API.
func (c apiClient) Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error) {
	began := c.k.incarnation.now
	made, err := objectOf(c.request(ctx, Ask{Verb: proto.VerbCreate, Target: target, Object: obj, Options: &opts}))
	if err == nil {
		c.record(began, obj)
	}
	return made, err
}

// Update implements status.API.
func (c apiClient) Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error) {
	began := c.k.incarnation.now
	stored, err := objectOf(c.request(ctx, Ask{Verb: proto.VerbUpdate, Target: target, Object: obj, Options: &opts}))
	if err == nil {
		c.record(began, obj)
	}
	return stored, err
}

// record records what the apiserver accepted of a request.
func (c apiClient) record(began time.Time, obj kinds.Object) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		c.k.out.Note("", TimedFact{history.KubeletStatus{
			Pod: podstate.Key(obj), UID: string(obj.UID), Phase: string(obj.Status.Phase), Containers: kubelet.ContainerStates(&obj.Status),
		}, began})
	case *corev1.Node:
		for _, condition := range obj.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				c.k.out.Note("", TimedFact{history.Ready{Node: c.k.of.node, Value: string(condition.Status)}, began})
			}
		}
	case *coordinationv1.Lease:
		c.k.out.Note("", TimedFact{history.Lease{Node: c.k.of.node}, began})
	}
}

// Delete implements status.API. A kubelet only asks for the final delete of a pod.
func (c apiClient) Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	began := c.k.incarnation.now
	got := c.request(ctx, Ask{Verb: proto.VerbDelete, Target: target, Options: &opts})
	final := history.KubeletFinal{Pod: target.Namespace + "/" + target.Name}
	if opts.Preconditions != nil && opts.Preconditions.UID != nil {
		final.UID = string(*opts.Preconditions.UID)
		seen, listed := c.k.runtime.views.Last(*opts.Preconditions.UID)
		final.Listed, final.Left = &listed, len(seen.Running())
	}
	if got.Err != nil {
		final.Err = got.Err.Error()
	}
	c.k.untidied = true
	c.k.out.Note("", TimedFact{final, began})
	return got.Object, got.Err
}

// request sends a request to the apiserver.
func (k *kubeletProcess) request(now time.Time, ask Ask, out Out, then Then) {
	uid := ""
	if ask.Object != nil {
		uid = string(ask.Object.GetUID())
	}
	if opts, is := ask.Options.(*metav1.DeleteOptions); is && opts.Preconditions != nil && opts.Preconditions.UID != nil {
		uid = string(*opts.Preconditions.UID)
	}
	answered := k.api.contacts.BeginRequest(ask.Verb, ask.Target, uid)
	err := k.api.client.Do(now, out, ask, func(now time.Time, got Outcome, out Out) {
		answered(got.Err)
		then(now, got, out)
	})
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
}
