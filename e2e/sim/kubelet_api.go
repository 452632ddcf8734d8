package sim

import (
	"context"
	"fmt"
	"time"

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

// apiClient is the apiserver to a kubelet's tasks. It implements status.API, and records what
// the kubelet says and the apiserver accepts, as the product does.
type apiClient struct{ k *kubeletProcess }

// request asks the apiserver and waits for the answer.
func (c apiClient) request(ctx context.Context, ask Ask) (got Got) {
	answered := make(chan struct{})
	c.k.do(c.k.begun.now, ask, c.k.out, func(_ time.Time, answer Got, _ Out) {
		got = answer
		close(answered)
	})
	if err := c.k.tasks.Wait(ctx, answered); err != nil {
		return Got{Err: err}
	}
	return got
}

// objectOf returns the object that an answer holds.
func objectOf(got Got) (kinds.Object, error) {
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

// Update implements status.API.
func (c apiClient) Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error) {
	began := c.k.begun.now
	stored, err := objectOf(c.request(ctx, Ask{Verb: proto.VerbUpdate, Target: target, Object: obj, Options: &opts}))
	if pod, is := obj.(*corev1.Pod); is && err == nil {
		c.k.out.Note("", Lasted{history.KubeletStatus{
			Pod: podstate.Key(pod), UID: string(pod.UID), Phase: string(pod.Status.Phase), Containers: kubelet.Said(&pod.Status),
		}, began})
	}
	return stored, err
}

// Delete implements status.API. A kubelet only asks for the final delete of a pod.
func (c apiClient) Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	began := c.k.begun.now
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
	c.k.out.Note("", Lasted{final, began})
	return got.Object, got.Err
}
