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

// Claimer adopts and releases objects of type T for an owner.
type Claimer[T kinds.Object] struct {
	Objects Resource[T]
	// Owner is the owner and OwnerKind its kind.
	Owner     kinds.Object
	OwnerKind schema.GroupVersionKind
	Selector  labels.Selector
	// Fresh reads the owner from the API, once, before the first adoption. An owner that is gone,
	// or being deleted, adopts nothing.
	Fresh func(ctx context.Context) (kinds.Object, error)
	// Finalizers are added to adopted objects.
	Finalizers []string
}

// Claim adopts matching orphans, releases owned objects that no longer match, and returns the
// owner's objects.
func (c Claimer[T]) Claim(ctx context.Context, objects []T) ([]T, error) {
	may := sync.OnceValue(func() error { return c.checkAdoption(ctx) })
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

func (c Claimer[T]) checkAdoption(ctx context.Context) error {
	fresh, err := c.Fresh(ctx)
	if err != nil {
		return fmt.Errorf("can't adopt: %w", err)
	}
	return CheckAdoption(c.Owner, fresh)
}

// CheckAdoption returns why an owner adopts nothing; nil if it may. fresh is the owner as read from
// the API.
func CheckAdoption(owner, fresh kinds.Object) error {
	switch {
	case fresh.GetUID() != owner.GetUID():
		return fmt.Errorf("can't adopt: original %s/%s is gone: got uid %s, wanted %s",
			owner.GetNamespace(), owner.GetName(), fresh.GetUID(), owner.GetUID())
	case fresh.GetDeletionTimestamp() != nil:
		return fmt.Errorf("can't adopt: %s/%s has just been deleted at %v", owner.GetNamespace(), owner.GetName(), fresh.GetDeletionTimestamp())
	}
	return nil
}

// adopt makes the owner an object's controller, and returns the new version of the object. The
// caller must not decide on the version from before its own write.
func (c Claimer[T]) adopt(ctx context.Context, obj T) (T, error) {
	return c.Objects.PatchStrategic(ctx, obj, "", AdoptionPatch(c.Owner, c.OwnerKind, obj, c.Finalizers))
}

// AdoptionPatch returns the strategic merge patch that makes an owner of a kind the controller of
// an object, and adds finalizers to the object.
func AdoptionPatch(owner kinds.Object, kind schema.GroupVersionKind, obj kinds.Object, finalizers []string) any {
	meta := map[string]any{"uid": obj.GetUID(), "ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}}
	if len(finalizers) > 0 {
		meta["finalizers"] = finalizers
	}
	return map[string]any{"metadata": meta}
}

// release removes the owner reference from an object. An object that is gone or was replaced needs
// no release.
func (c Claimer[T]) release(ctx context.Context, obj T) error {
	err := Disown(ctx, c.Objects, obj, c.Owner.GetUID(), c.Finalizers)
	if IsOwnerless(err) {
		return nil
	}
	return err
}

// IsOwnerless reports whether err says that the object of a release is gone, was replaced, or has
// no such owner.
func IsOwnerless(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) }

// Disown removes an owner reference, and finalizers, from an object.
func Disown[T kinds.Object](ctx context.Context, objects Resource[T], obj T, owner types.UID, finalizers []string) error {
	_, err := objects.PatchStrategic(ctx, obj, "", DisownPatch(obj, owner, finalizers))
	return err
}

// DisownPatch returns the strategic merge patch of Disown.
func DisownPatch(obj kinds.Object, owner types.UID, finalizers []string) any {
	meta := map[string]any{
		"uid": obj.GetUID(), "ownerReferences": []map[string]any{{"$patch": "delete", "uid": owner}},
	}
	if len(finalizers) > 0 {
		meta["$deleteFromPrimitiveList/finalizers"] = finalizers
	}
	return map[string]any{"metadata": meta}
}
