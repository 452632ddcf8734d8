package fieldmanager

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/podfall/podfall/proto/kinds"
)

// Scaled is the result of an apply to a Scale.
type Scaled struct {
	Scale *autoscalingv1.Scale
	// ManagedFields are the entries for the scaled object: a manager that owns the Scale's replicas
	// owns the object's.
	ManagedFields []metav1.ManagedFieldsEntry
	// Warnings are for the client.
	Warnings []string
}

// ApplyScale returns scale, the Scale of parent, with the patch merged into it. Neither is changed.
func (f *Fields) ApplyScale(write Write, parent kinds.Object, scale *autoscalingv1.Scale, patch Patch) (Scaled, error) {
	handler := managedfields.NewScaleHandler(parent.GetManagedFields(), write.Kind.GroupVersion(), f.replicasPaths(write.Kind))
	live := scale.DeepCopy()
	var err error
	if live.ManagedFields, err = handler.ToSubresource(); err != nil {
		return Scaled{}, apierrors.NewInternalError(err)
	}
	write.Kind = kinds.Kind{GroupVersionKind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Resource: "scales", Namespaced: true}
	merged, warnings, err := f.Apply(write, live, patch)
	if err != nil {
		return Scaled{}, err
	}
	applied, ok := merged.(*autoscalingv1.Scale)
	if !ok {
		return Scaled{}, apierrors.NewInternalError(fmt.Errorf("apply made %T of a Scale", merged))
	}
	entries, err := handler.ToParent(applied.ManagedFields)
	if err != nil {
		return Scaled{}, apierrors.NewInternalError(err)
	}
	return Scaled{Scale: applied, ManagedFields: entries, Warnings: warnings}, nil
}

// replicasPaths returns the path of the replicas in each version of a kind.
func (f *Fields) replicasPaths(kind kinds.Kind) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, gv := range f.versionsOf(kind) {
		paths[gv.String()] = fieldpath.MakePathOrDie("spec", "replicas")
		if kind.Custom {
			paths[gv.String()] = f.customReplicasPath(kind, gv)
		}
	}
	return paths
}

// customReplicasPath returns nil for a version without a scale.
func (f *Fields) customReplicasPath(kind kinds.Kind, gv schema.GroupVersion) fieldpath.Path {
	crd := f.converters.crd(kind.GroupResource())
	if crd == nil {
		return nil
	}
	for _, v := range crd.Spec.Versions {
		if v.Name != gv.Version || v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		var path fieldpath.Path
		for part := range strings.SplitSeq(strings.TrimPrefix(v.Subresources.Scale.SpecReplicasPath, "."), ".") {
			path = append(path, fieldpath.PathElement{FieldName: &part})
		}
		return path
	}
	return nil
}
