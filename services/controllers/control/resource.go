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

// Of is the resource with this group resource: "pods", "deployments.apps". It panics when
// there is none: a mistake in a controller.
func Of[T kinds.Object](api API, groupResource string) Resource[T] {
	kind, ok := kinds.ByResource(groupResource)
	if !ok {
		panic(fmt.Sprintf("resource %s: no such kind", groupResource))
	}
	return Resource[T]{api: api, kind: kind}
}

// Kind is the row of the table.
func (r Resource[T]) Kind() kinds.Kind { return r.kind }

// Create stores obj in its namespace.
func (r Resource[T]) Create(ctx context.Context, obj T) (T, error) {
	return r.typed(r.api.Create(ctx, podapi.Target{Kind: r.kind, Namespace: obj.GetNamespace()}, obj, metav1.CreateOptions{}))
}

// Get reads one object from the API itself, for when the view is not enough.
func (r Resource[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return r.typed(r.api.Get(ctx, podapi.Target{Kind: r.kind, Namespace: namespace, Name: name}, metav1.GetOptions{}))
}

// Update replaces obj, if it is still the resourceVersion that obj says.
func (r Resource[T]) Update(ctx context.Context, obj T) (T, error) {
	return r.typed(r.api.Update(ctx, r.at(obj, ""), obj, metav1.UpdateOptions{}))
}

// UpdateStatus is Update for the status.
func (r Resource[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return r.typed(r.api.Update(ctx, r.at(obj, "status"), obj, metav1.UpdateOptions{}))
}

// Merge changes obj by a JSON merge patch of what JSON makes of patch.
func (r Resource[T]) Merge(ctx context.Context, obj T, patch any) (T, error) {
	return r.patch(reading(ctx, obj), obj, "", types.MergePatchType, patch)
}

// Strategic is Merge with a strategic merge patch, of a subresource if one is named.
func (r Resource[T]) Strategic(ctx context.Context, obj T, subresource string, patch any) (T, error) {
	return r.patch(reading(ctx, obj), obj, subresource, types.StrategicMergePatchType, patch)
}

// Regardless is Strategic for what was decided whatever has become of obj since.
func (r Resource[T]) Regardless(ctx context.Context, obj T, patch any) (T, error) {
	return r.patch(ctx, obj, "", types.StrategicMergePatchType, patch)
}

func (r Resource[T]) patch(ctx context.Context, obj T, subresource string, form types.PatchType, patch any) (T, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		var none T
		return none, fmt.Errorf("patch %s: %w", r.at(obj, subresource), err)
	}
	return r.typed(r.api.Patch(ctx, r.at(obj, subresource), form, data, metav1.PatchOptions{}))
}

// Delete asks for the very object obj to be deleted: another of its name is left alone, with
// a conflict. The options are completed by that.
func (r Resource[T]) Delete(ctx context.Context, obj T, options metav1.DeleteOptions) error {
	if options.Preconditions == nil {
		uid := obj.GetUID()
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	_, err := r.api.Delete(reading(ctx, obj), r.at(obj, ""), options)
	return err
}

func (r Resource[T]) at(obj T, subresource string) podapi.Target {
	return podapi.Target{Kind: r.kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource}
}

func (r Resource[T]) typed(obj kinds.Object, err error) (T, error) {
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
