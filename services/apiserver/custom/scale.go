package custom

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

var _ registry.Scaler = resources{}

// Scale returns the Scale of an object, by the paths in its definition.
func (s resources) Scale(obj kinds.Object) (*autoscalingv1.Scale, error) {
	custom, paths, err := s.scalable(obj)
	if err != nil {
		return nil, err
	}
	wanted, found, err := unstructured.NestedInt64(custom.Object, pathSteps(paths.SpecReplicasPath)...)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("the spec replicas field %q does not exist", paths.SpecReplicasPath)
	}
	have, _, err := unstructured.NestedInt64(custom.Object, pathSteps(paths.StatusReplicasPath)...)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(have)},
	}
	if path := paths.LabelSelectorPath; path != nil && *path != "" {
		if scale.Status.Selector, _, err = unstructured.NestedString(custom.Object, pathSteps(*path)...); err != nil {
			return nil, err
		}
	}
	return scale, nil
}

// SetReplicas returns a copy of obj with another number of wanted replicas.
func (s resources) SetReplicas(obj kinds.Object, replicas int32) (kinds.Object, error) {
	custom, paths, err := s.scalable(obj)
	if err != nil {
		return nil, err
	}
	scaled := custom.DeepCopy()
	return scaled, unstructured.SetNestedField(scaled.Object, int64(replicas), pathSteps(paths.SpecReplicasPath)...)
}

func (s resources) scalable(obj kinds.Object) (*unstructured.Unstructured, *apiextensionsv1.CustomResourceSubresourceScale, error) {
	if s.schemaErr != nil {
		return nil, nil, s.schemaErr
	}
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok || s.schema.scale() == nil {
		return nil, nil, fmt.Errorf("%s cannot be scaled", s.kind.Resource)
	}
	return custom, s.schema.scale(), nil
}
