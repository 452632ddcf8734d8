package registry

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// podStrategy is the strategy of Pods. The rules themselves are in the other pod files.
type podStrategy struct {
	generic
	compat proto.Compat
}

func asPod(obj kinds.Object) *corev1.Pod {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		panic(fmt.Sprintf("%T is no Pod", obj)) // the caller mixed up strategies
	}
	return pod
}

func (s podStrategy) PrepareForCreate(obj kinds.Object, _ time.Time) {}
func (s podStrategy) Validate(obj kinds.Object) field.ErrorList { return ValidateMeta(s.kind, obj) }

func (s podStrategy) Fields(obj kinds.Object) fields.Set {
	pod := asPod(obj)
	set := s.generic.Fields(obj)
	set["spec.nodeName"] = pod.Spec.NodeName
	return set
}
