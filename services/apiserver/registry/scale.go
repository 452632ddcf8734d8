package registry

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/proto/kinds"
)

// Scaler knows where the objects of one kind keep their replicas. A Strategy that implements it
// serves the subresource "scale".
type Scaler interface {
	// Scale returns the wanted and the present replicas of obj and their selector. The caller sets
	// the metadata.
	Scale(obj kinds.Object) (*autoscalingv1.Scale, error)
	// SetReplicas returns a copy of obj with another number of wanted replicas.
	SetReplicas(obj kinds.Object, replicas int32) (kinds.Object, error)
}

// ScaleOf returns the Scaler of a built-in kind.
func ScaleOf(kind kinds.Kind) Scaler { return builtinScaler{kind} }

type builtinScaler struct{ kind kinds.Kind }

func (s builtinScaler) Scale(obj kinds.Object) (*autoscalingv1.Scale, error) {
	spec, have, selector, err := s.replicas(obj)
	if err != nil {
		return nil, err
	}
	return &autoscalingv1.Scale{
		Spec:   autoscalingv1.ScaleSpec{Replicas: **spec},
		Status: autoscalingv1.ScaleStatus{Replicas: have, Selector: selector},
	}, nil
}

func (s builtinScaler) SetReplicas(obj kinds.Object, replicas int32) (kinds.Object, error) {
	scaled := copyOf(obj)
	spec, _, _, err := s.replicas(scaled)
	if err != nil {
		return nil, err
	}
	*spec = &replicas
	return scaled, nil
}

// replicas returns obj's wanted replicas, never nil, its present replicas, and their selector.
//
//nolint:revive // the three belong together
func (s builtinScaler) replicas(obj kinds.Object) (spec **int32, have int32, selector string, err error) {
	var selects *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		spec, have, selects = &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *appsv1.ReplicaSet:
		spec, have, selects = &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *appsv1.StatefulSet:
		spec, have, selects = &o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *corev1.ReplicationController:
		selects = metav1.SetAsLabelSelector(labels.Set(o.Spec.Selector))
		spec, have = &o.Spec.Replicas, o.Status.Replicas
	default:
		return nil, 0, "", fmt.Errorf("%s: %T has no replicas", s.kind.Resource, obj)
	}
	parsed, err := metav1.LabelSelectorAsSelector(selects)
	if err != nil {
		return nil, 0, "", err
	}
	if *spec == nil {
		*spec = new(int32(1))
	}
	return spec, have, parsed.String(), nil
}
