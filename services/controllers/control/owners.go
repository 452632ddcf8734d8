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

// Owners is what the controllers of all kinds that own pods have in common: it has the owners
// looked at that a change of a pod is about, knows whose pods are whose, makes and deletes
// them, and remembers what of that the view does not show yet.
type Owners[T kinds.Object] struct {
	Kind schema.GroupVersionKind
	// Get and In find owners in the view, and Selector is what one selects its pods by.
	Get      func(view.Key) (T, bool)
	In       func(namespace string) []T
	Selector func(T) *metav1.LabelSelector
	// Fresh reads an owner from the API, which knows whether it is still there.
	Fresh func(ctx context.Context, key view.Key) (kinds.Object, error)
	// Look has an owner looked at after a time.
	Look func(key view.Key, after time.Duration)
	// Batch is how long an owner waits for more to happen to its own pods.
	Batch time.Duration
	Pods  *view.Copy[*corev1.Pod]
	// Writes makes and deletes pods, Finalizers are on those that are adopted.
	Writes     Pods
	Finalizers []string
	Clock      clock.Clock
	Expected   *workload.Expectations
}

// Changed has an owner looked at that is new, or has changed.
func (o Owners[T]) Changed(owner metav1.Object) { o.Look(view.KeyOf(owner), 0) }

// Gone has an owner looked at that is gone. Nothing is expected of it any more: another of its
// name, that is there before it is looked at, would wait for that in vain.
func (o Owners[T]) Gone(owner metav1.Object) {
	o.Expected.Forget(view.KeyOf(owner))
	o.Look(view.KeyOf(owner), 0)
}

// PodChanged has the owners looked at that a change of a pod is about; of a new pod old is nil,
// of one that is gone now is nil.
func (o Owners[T]) PodChanged(old, now *corev1.Pod) {
	touch := workload.Touched(o.Kind, old, now)
	pod := view.Either(old, now)
	if touch.Former != nil {
		o.Look(view.Key{Namespace: pod.Namespace, Name: touch.Former.Name}, o.Batch)
	}
	if touch.Owner != nil {
		key := view.Key{Namespace: pod.Namespace, Name: touch.Owner.Name}
		if owner, ok := o.Get(key); ok && owner.GetUID() != touch.Owner.UID {
			return // of an older owner of this name
		}
		if touch.Came && !touch.Left {
			o.Expected.Created(key)
		}
		if touch.Left {
			o.Expected.Deleted(key, pod.UID)
		}
		o.Look(key, o.Batch)
	}
	if !touch.Orphan {
		return
	}
	for _, owner := range o.In(pod.Namespace) {
		if selector, err := metav1.LabelSelectorAsSelector(o.Selector(owner)); err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			o.Look(view.KeyOf(owner), 0)
		}
	}
}

// Stale reports whether the view does not show yet what was asked for an owner last; it will be
// looked at again when the view is to be trusted all the same. Ask before the pods are read.
func (o Owners[T]) Stale(key view.Key) bool {
	now := o.Clock.Steady()
	if o.Expected.Met(key, now) {
		return false
	}
	o.Look(key, o.Expected.Left(key, now)+time.Second)
	return true
}

// Claim is an owner's pods, after adoption and release. Only orphans that fit are adopted; nil
// fits all.
func (o Owners[T]) Claim(ctx context.Context, owner T, selector labels.Selector, fits func(*corev1.Pod) bool) ([]*corev1.Pod, error) {
	candidates := o.Pods.Controlled(owner.GetUID())
	for _, orphan := range o.Pods.Orphans(owner.GetNamespace()) {
		if fits == nil || fits(orphan) {
			candidates = append(candidates, orphan)
		}
	}
	return ClaimerOf(o, o.Writes.Resource, owner, selector).Claim(ctx, candidates)
}

// ClaimerOf takes objects of any kind into an owner's possession.
func ClaimerOf[T, O kinds.Object](o Owners[T], objects Resource[O], owner T, selector labels.Selector) Claimer[O] {
	claimer := Claimer[O]{
		Objects: objects, Owner: owner, OwnerKind: o.Kind, Selector: selector,
		Fresh: func(ctx context.Context) (kinds.Object, error) { return o.Fresh(ctx, view.KeyOf(owner)) },
	}
	if objects.Kind().Resource == o.Writes.Kind().Resource {
		claimer.Finalizers = o.Finalizers
	}
	return claimer
}

// Act makes pods for an owner and deletes others, expects to see all of that, and says how many
// were made. Events are about the object about. One that is gone needs no deleting, and
// a namespace that is going takes no pods.
func (o Owners[T]) Act(ctx context.Context, owner T, about kinds.Object, create, remove []*corev1.Pod) (made int, err error) {
	if len(create)+len(remove) == 0 {
		return 0, nil
	}
	key, uids := view.KeyOf(owner), make([]types.UID, 0, len(remove))
	for _, pod := range remove {
		uids = append(uids, pod.UID)
	}
	o.Expected.Both(key, len(create), uids, o.Clock.Steady())
	made, failed := SlowStart(len(create), func(i int) error {
		_, err := o.Writes.Make(ctx, about, create[i])
		return err
	})
	for range len(create) - made {
		o.Expected.Created(key)
	}
	if Closing(failed) {
		failed = nil
	}
	return made, errors.Join(failed, AtOnce(len(remove), func(i int) error {
		err := o.Writes.Remove(ctx, about, remove[i])
		if err != nil {
			o.Expected.Deleted(key, remove[i].UID)
		}
		if Gone(err) {
			return nil
		}
		return err
	}, func() {}))
}
