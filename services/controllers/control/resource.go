package control

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Resource writes objects of one kind.
type Resource[T kinds.Object] struct {
	api  API
	kind kinds.Kind
}

// Of returns the resource with this group resource: "pods", "deployments.apps". It panics if there
// is none, which is a bug in a controller.
func Of[T kinds.Object](api API, groupResource string) Resource[T] {
	kind, ok := kinds.ByResource(groupResource)
	if !ok {
		panic(fmt.Sprintf("resource %s: no such kind", groupResource))
	}
	return Resource[T]{api: api, kind: kind}
}

// Kind returns the resource's kind.
func (r Resource[T]) Kind() kinds.Kind { return r.kind }

// Create stores obj in its namespace.
func (r Resource[T]) Create(ctx context.Context, obj T) (T, error) {
	return r.toTyped(r.api.Create(ctx, podapi.Target{Kind: r.kind, Namespace: obj.GetNamespace()}, obj, metav1.CreateOptions{}))
}

// Get reads one object from the API, if the view is not enough.
func (r Resource[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return r.toTyped(r.api.Get(ctx, podapi.Target{Kind: r.kind, Namespace: namespace, Name: name}, metav1.GetOptions{}))
}

// Update replaces obj, if its resourceVersion is still current.
func (r Resource[T]) Update(ctx context.Context, obj T) (T, error) {
	return r.toTyped(r.api.Update(ctx, r.target(obj, ""), obj, metav1.UpdateOptions{}))
}

// UpdateStatus is Update for the status.
func (r Resource[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return r.toTyped(r.api.Update(ctx, r.target(obj, "status"), obj, metav1.UpdateOptions{}))
}

// PatchMerge changes obj by a JSON merge patch, the JSON encoding of patch.
func (r Resource[T]) PatchMerge(ctx context.Context, obj T, patch any) (T, error) {
	return r.patch(withReadRevision(ctx, obj), obj, "", types.MergePatchType, patch)
}

// PatchStrategic is PatchMerge with a strategic merge patch, of a subresource if one is named.
func (r Resource[T]) PatchStrategic(ctx context.Context, obj T, subresource string, patch any) (T, error) {
	return r.patch(withReadRevision(ctx, obj), obj, subresource, types.StrategicMergePatchType, patch)
}

// PatchAnyVersion is PatchStrategic for a decision that holds for any later version of obj.
func (r Resource[T]) PatchAnyVersion(ctx context.Context, obj T, patch any) (T, error) {
	return r.patch(ctx, obj, "", types.StrategicMergePatchType, patch)
}

func (r Resource[T]) patch(ctx context.Context, obj T, subresource string, form types.PatchType, patch any) (T, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		var none T
		return none, fmt.Errorf("patch %s: %w", r.target(obj, subresource), err)
	}
	return r.toTyped(r.api.Patch(ctx, r.target(obj, subresource), form, data, metav1.PatchOptions{}))
}

// Delete deletes obj itself: another object of the same name is left alone, with a conflict. Delete
// adds the precondition to options.
func (r Resource[T]) Delete(ctx context.Context, obj T, options metav1.DeleteOptions) error {
	if options.Preconditions == nil {
		uid := obj.GetUID()
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	_, err := r.api.Delete(withReadRevision(ctx, obj), r.target(obj, ""), options)
	return err
}

func (r Resource[T]) target(obj T, subresource string) podapi.Target {
	return podapi.Target{Kind: r.kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource}
}

func (r Resource[T]) toTyped(obj kinds.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s: answered with %T", r.kind.GroupResource(), obj)
	}
	return typed, nil
}
