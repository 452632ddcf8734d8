package control

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Owners is the common part of all controllers that own pods. It queues the owners that a change of
// a pod concerns, claims, creates and deletes pods, and keeps the expectations that the view does
// not show yet.
type Owners[T kinds.Object] struct {
	Kind schema.GroupVersionKind
	// Get and In find owners in the view; Selector returns an owner's pod selector.
	Get      func(view.Key) (T, bool)
	In       func(namespace string) []T
	Selector func(T) *metav1.LabelSelector
	// Fresh reads an owner from the API.
	Fresh func(ctx context.Context, key view.Key) (kinds.Object, error)
	// Enqueue queues an owner after a time.
	Enqueue func(key view.Key, after time.Duration)
	// Batch is how long an owner waits for further changes of its pods.
	Batch time.Duration
	Pods  *view.Copy[*corev1.Pod]
	// Writes creates and deletes pods; Finalizers are added to adopted ones.
	Writes     Pods
	Finalizers []string
	Clock      clock.Clock
	Expected   *workload.Expectations
}

// OwnerChanged queues an owner that is new or has changed.
func (o Owners[T]) OwnerChanged(owner metav1.Object) { o.Enqueue(view.KeyOf(owner), 0) }

// OwnerDeleted queues a deleted owner and drops its expectations. A new owner of the same name
// would otherwise wait for them in vain.
func (o Owners[T]) OwnerDeleted(owner metav1.Object) {
	o.Expected.Forget(view.KeyOf(owner))
	o.Enqueue(view.KeyOf(owner), 0)
}

// PodChanged queues the owners that a change of a pod concerns. old is nil for a new pod, now is
// nil for a deleted one.
func (o Owners[T]) PodChanged(old, now *corev1.Pod) {
	touch := workload.ReadPodChange(o.Kind, old, now)
	pod := view.Either(old, now)
	if touch.Former != nil {
		o.Enqueue(view.Key{Namespace: pod.Namespace, Name: touch.Former.Name}, o.Batch)
	}
	if touch.Owner != nil {
		key := view.Key{Namespace: pod.Namespace, Name: touch.Owner.Name}
		if owner, ok := o.Get(key); ok && owner.GetUID() != touch.Owner.UID {
			return // of an older owner of this name
		}
		if touch.Created && !touch.Deleted {
			o.Expected.CreationObserved(key)
		}
		if touch.Deleted {
			o.Expected.DeletionObserved(key, pod.UID)
		}
		o.Enqueue(key, o.Batch)
	}
	if !touch.Orphan {
		return
	}
	for _, owner := range o.In(pod.Namespace) {
		if selector, err := metav1.LabelSelectorAsSelector(o.Selector(owner)); err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			o.Enqueue(view.KeyOf(owner), 0)
		}
	}
}

// Stale reports whether the view does not show an owner's last writes yet. It then queues the owner
// for the time when the expectations expire. Call it before reading the pods.
func (o Owners[T]) Stale(key view.Key) bool {
	now := o.Clock.Steady()
	if o.Expected.Satisfied(key, now) {
		return false
	}
	o.Enqueue(key, o.Expected.Remaining(key, now)+time.Second)
	return true
}

// Claim returns an owner's pods, after adoption and release. Only orphans that fit are adopted; nil
// fits all.
func (o Owners[T]) Claim(ctx context.Context, owner T, selector labels.Selector, fits func(*corev1.Pod) bool) ([]*corev1.Pod, error) {
	candidates := o.Pods.ControlledBy(owner.GetUID())
	for _, orphan := range o.Pods.Orphans(owner.GetNamespace()) {
		if fits == nil || fits(orphan) {
			candidates = append(candidates, orphan)
		}
	}
	return NewClaimer(o, o.Writes.Resource, owner, selector).Claim(ctx, candidates)
}

// NewClaimer returns a Claimer of objects of any kind for an owner.
func NewClaimer[T, O kinds.Object](o Owners[T], objects Resource[O], owner T, selector labels.Selector) Claimer[O] {
	claimer := Claimer[O]{
		Objects: objects, Owner: owner, OwnerKind: o.Kind, Selector: selector,
		Fresh: func(ctx context.Context) (kinds.Object, error) { return o.Fresh(ctx, view.KeyOf(owner)) },
	}
	if objects.Kind().Resource == o.Writes.Kind().Resource {
		claimer.Finalizers = o.Finalizers
	}
	return claimer
}

// CreateAndDelete creates and deletes pods of an owner, expects to see these changes, and returns
// how many pods were created. Events refer to the object about. A pod that is gone already, and a
// namespace that is being deleted, are no errors.
func (o Owners[T]) CreateAndDelete(ctx context.Context, owner T, about kinds.Object, create, remove []*corev1.Pod) (made int, err error) {
	if len(create)+len(remove) == 0 {
		return 0, nil
	}
	key, uids := view.KeyOf(owner), make([]types.UID, 0, len(remove))
	for _, pod := range remove {
		uids = append(uids, pod.UID)
	}
	o.Expected.Expect(key, len(create), uids, o.Clock.Steady())
	made, failed := SlowStart(len(create), func(i int) error {
		_, err := o.Writes.CreateFor(ctx, about, create[i])
		return err
	})
	for range len(create) - made {
		o.Expected.CreationObserved(key)
	}
	if IsNamespaceTerminating(failed) {
		failed = nil
	}
	return made, errors.Join(failed, Parallel(len(remove), func(i int) error {
		err := o.Writes.DeleteFor(ctx, about, remove[i])
		if err != nil {
			o.Expected.DeletionObserved(key, remove[i].UID)
		}
		if IsGone(err) {
			return nil
		}
		return err
	}, func() {}))
}
