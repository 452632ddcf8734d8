package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/workload"
)

// Claimer takes objects of kind T into possession for an owner, and lets them go.
type Claimer[T kinds.Object] struct {
	Objects Resource[T]
	// Owner is the possessor and OwnerKind its kind.
	Owner     kinds.Object
	OwnerKind schema.GroupVersionKind
	Selector  labels.Selector
	// Fresh reads the owner from the API, once, before the first adoption: an owner that
	// is gone, or being deleted, adopts nothing.
	Fresh func(ctx context.Context) (kinds.Object, error)
	// Finalizers are put on what is adopted.
	Finalizers []string
}

// Claim is those of the objects that are the owner's, after what could be adopted was and what
// does not fit any more was released.
func (c Claimer[T]) Claim(ctx context.Context, objects []T) ([]T, error) {
	may := sync.OnceValue(func() error { return c.mayAdopt(ctx) })
	var mine []T
	var failed error
	for _, obj := range objects {
		switch workload.Claim(c.Owner, obj, func() bool { return c.Selector.Matches(labels.Set(obj.GetLabels())) }) {
		case workload.Mine:
			mine = append(mine, obj)
		case workload.Adopt:
			var adopted T
			err := may()
			if err == nil {
				adopted, err = c.adopt(ctx, obj)
			}
			switch {
			case err == nil:
				mine = append(mine, adopted)
			case !apierrors.IsNotFound(err):
				failed = errors.Join(failed, err)
			}
		case workload.Release:
			failed = errors.Join(failed, c.release(ctx, obj))
		case workload.NotMine:
		}
	}
	return mine, failed
}

func (c Claimer[T]) mayAdopt(ctx context.Context) error {
	fresh, err := c.Fresh(ctx)
	if err != nil {
		return fmt.Errorf("can't adopt: %w", err)
	}
	return MayAdopt(c.Owner, fresh)
}

// MayAdopt is why an owner, that is known to the API as fresh, adopts nothing; nil when it may.
func MayAdopt(owner, fresh kinds.Object) error {
	switch {
	case fresh.GetUID() != owner.GetUID():
		return fmt.Errorf("can't adopt: original %s/%s is gone: got uid %s, wanted %s",
			owner.GetNamespace(), owner.GetName(), fresh.GetUID(), owner.GetUID())
	case fresh.GetDeletionTimestamp() != nil:
		return fmt.Errorf("can't adopt: %s/%s has just been deleted at %v", owner.GetNamespace(), owner.GetName(), fresh.GetDeletionTimestamp())
	}
	return nil
}

// adopt makes the owner an object's controller, and returns the object as it is since: who goes
// on with an older one decides on what was before its own write.
func (c Claimer[T]) adopt(ctx context.Context, obj T) (T, error) {
	return c.Objects.Strategic(ctx, obj, "", Adoption(c.Owner, c.OwnerKind, obj, c.Finalizers))
}

// Adoption is the strategic merge patch that makes an owner of a kind the controller of an
// object, and puts finalizers on it.
func Adoption(owner kinds.Object, kind schema.GroupVersionKind, obj kinds.Object, finalizers []string) any {
	meta := map[string]any{"uid": obj.GetUID(), "ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}}
	if len(finalizers) > 0 {
		meta["finalizers"] = finalizers
	}
	return map[string]any{"metadata": meta}
}

// release takes the owner off an object. One that is gone, or another by now, needs none of it.
func (c Claimer[T]) release(ctx context.Context, obj T) error {
	err := Disown(ctx, c.Objects, obj, c.Owner.GetUID(), c.Finalizers)
	if Ownerless(err) {
		return nil
	}
	return err
}

// Ownerless says that an object that was to be released is gone, or another by now, or has no
// such owner.
func Ownerless(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) }

// Disown takes an owner reference, and finalizers, off an object.
func Disown[T kinds.Object](ctx context.Context, objects Resource[T], obj T, owner types.UID, finalizers []string) error {
	_, err := objects.Strategic(ctx, obj, "", Disowning(obj, owner, finalizers))
	return err
}

// Disowning is the strategic merge patch that takes an owner reference, and finalizers, off an
// object.
func Disowning(obj kinds.Object, owner types.UID, finalizers []string) any {
	meta := map[string]any{
		"uid": obj.GetUID(), "ownerReferences": []map[string]any{{"$patch": "delete", "uid": owner}},
	}
	if len(finalizers) > 0 {
		meta["$deleteFromPrimitiveList/finalizers"] = finalizers
	}
	return map[string]any{"metadata": meta}
}
