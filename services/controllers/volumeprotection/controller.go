package volumeprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller keeps one of the finalizers.
type Controller struct{ loop *loop.Loop[view.Key] }

// Run protects until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// claimKeeper keeps the finalizers of claims, and says which of them are unused.
type claimKeeper struct {
	control.Base
	claims *view.Copy[*corev1.PersistentVolumeClaim]
	pods   *view.Copy[*corev1.Pod]
	client control.Resource[*corev1.PersistentVolumeClaim]
}

// NewClaims protects claims.
func NewClaims(base control.Base) *Controller {
	k := claimKeeper{
		Base: base, claims: view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"), pods: view.Of[*corev1.Pod](base.Views, "pods"),
		client: control.Of[*corev1.PersistentVolumeClaim](base.API, "persistentvolumeclaims"),
	}
	queue := loop.New(loop.Config{Name: "pvcprotection", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: 2}, k.sync)
	k.claims.OnChange(func(_, now *corev1.PersistentVolumeClaim) {
		if now != nil {
			queue.Add(view.KeyOf(now))
		}
	})
	k.pods.OnChange(func(old, now *corev1.Pod) {
		if old != nil && (now == nil || now.UID != old.UID) {
			addClaims(queue, old)
		}
		if now != nil {
			addClaims(queue, now)
		}
	})
	return &Controller{queue}
}

// addClaims has the claims of a pod looked at.
func addClaims(queue *loop.Loop[view.Key], pod *corev1.Pod) {
	for _, volume := range pod.Spec.Volumes {
		if name := ClaimName(pod, volume); name != "" {
			queue.Add(view.Key{Namespace: pod.Namespace, Name: name})
		}
	}
}

// unused is Unused in the releases that have the condition.
func (k claimKeeper) unused(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) (corev1.PersistentVolumeClaimCondition, bool) {
	condition, changes := Unused(claim, pods, k.Clock.Now())
	return condition, changes && k.Compat.ReportsUnusedClaims
}

func (k claimKeeper) sync(ctx context.Context, key view.Key) error {
	claim, found := k.claims.Get(key)
	if !found {
		return nil
	}
	pods := k.pods.InNamespace(key.Namespace)
	condition, changes := k.unused(claim, pods)
	if Claim(claim, pods) == Remove || changes && condition.Status == corev1.ConditionTrue { // the view may be late
		live, err := listPods(ctx, k.API, key.Namespace)
		if err != nil {
			return err
		}
		pods = live
		condition, changes = k.unused(claim, pods)
	}
	if !changes {
		return write(ctx, k.client, claim, ClaimFinalizer, Claim(claim, pods))
	}
	// Its update brings the claim back, for the finalizer.
	if _, err := k.client.UpdateStatus(ctx, withCondition(claim, condition)); err != nil && !control.IsGone(err) {
		return err
	}
	return nil
}

// NewVolumes protects volumes.
func NewVolumes(base control.Base) *Controller {
	volumes := view.Of[*corev1.PersistentVolume](base.Views, "persistentvolumes")
	client := control.Of[*corev1.PersistentVolume](base.API, "persistentvolumes")
	queue := loop.New(loop.Config{Name: "pvprotection", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: 2}, func(ctx context.Context, key view.Key) error {
		volume, found := volumes.Get(key)
		if !found {
			return nil
		}
		return write(ctx, client, volume, VolumeFinalizer, Volume(volume))
	})
	volumes.OnChange(func(_, now *corev1.PersistentVolume) {
		if now != nil {
			queue.Add(view.KeyOf(now))
		}
	})
	return &Controller{queue}
}

// write adds the finalizer to obj or takes it away.
func write[T kinds.Object](ctx context.Context, client control.Resource[T], obj T, finalizer string, change Change) error {
	finalizers := slices.Clone(obj.GetFinalizers())
	switch change {
	case Keep:
		return nil
	case Add:
		finalizers = append(finalizers, finalizer)
	case Remove:
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == finalizer })
	}
	var value any
	if len(finalizers) > 0 {
		value = finalizers
	}
	_, err := client.PatchMerge(ctx, obj, map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(), "finalizers": value,
	}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
