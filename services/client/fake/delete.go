package fake

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Delete marks a bound pod, or removes the object.
func (c *Cluster) Delete(_ context.Context, t podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	opts.TypeMeta = metav1.TypeMeta{}
	detail, err := json.Marshal(opts)
	if err != nil {
		return nil, err
	}
	if err := c.begin("DELETE", t, string(detail)); err != nil {
		return nil, err
	}
	obj, err := c.get(t)
	if err != nil {
		return nil, err
	}
	pod, isPod := obj.(*corev1.Pod)
	if len(opts.DryRun) > 0 {
		return answer(t, obj), nil
	}
	grace := int64(30)
	if opts.GracePeriodSeconds != nil {
		grace = *opts.GracePeriodSeconds
	}
	if _, stays := obj.GetAnnotations()[Stays]; !stays && (!isPod || grace == 0 || pod.Spec.NodeName == "") {
		c.remove(t)
		return answer(t, obj), nil
	}
	deadline := metav1.NewTime(c.Clock.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	obj.SetDeletionTimestamp(&deadline)
	obj.SetDeletionGracePeriodSeconds(&grace)
	c.put(obj)
	marked := copyOf(obj)
	c.leave(t, obj)
	return answer(t, marked), nil
}

// leave removes a marked object when its time has come.
func (c *Cluster) leave(t podapi.Target, obj kinds.Object) {
	if _, stays := obj.GetAnnotations()[Stays]; stays {
		return
	}
	if _, replaced := obj.GetAnnotations()[Replaced]; replaced {
		c.remove(t)
		next := copyOf(obj)
		next.SetUID("")
		next.SetDeletionTimestamp(nil)
		c.put(next)
		return
	}
	after, err := time.ParseDuration(obj.GetAnnotations()[Gone])
	if err != nil || after == 0 {
		c.remove(t)
		return
	}
	c.leaving.Go(func() {
		<-c.Clock.Timer(after).C
		c.Remove(t)
	})
}

// answer is the object, or for kinds but pods a Status that names it (API-05).
func answer(t podapi.Target, obj kinds.Object) runtime.Object {
	if pod, ok := obj.(*corev1.Pod); ok {
		return pod
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: t.Name, Group: t.Kind.Group, Kind: t.Kind.Resource, UID: obj.GetUID()},
	}
}
