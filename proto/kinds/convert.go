package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// Convert converts obj to another version of its kind. Fields are copied by JSON name, which is
// right for versions that only added fields. Other fields are dropped and returned in lost, worded
// as in strict decoding: for example, networking.k8s.io/v1beta1's serviceName has no place in v1.
// Events and autoscalers have renamed fields (event.go, autoscaler.go).
//
// If obj has the version already, it is returned unchanged. Versions of a custom resource differ
// only in name, as in upstream's strategy None.
func Convert(obj Object, to schema.GroupVersionKind) (converted Object, lost []string, err error) {
	from, err := GVK(obj)
	if err != nil {
		return nil, nil, err
	}
	if from == to {
		return obj, nil, nil
	}
	if from.Group != to.Group && isEvent(from.GroupKind()) && isEvent(to.GroupKind()) {
		return convertEvent(obj, to)
	}
	if from.Group != to.Group || from.Kind != to.Kind {
		return nil, nil, fmt.Errorf("convert %s: %s is another kind", from, to)
	}
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		named := custom.DeepCopy()
		named.SetGroupVersionKind(to)
		return named, nil, nil
	}
	if isAutoscaler(from.GroupKind()) {
		switch hpa := obj.(type) {
		case *autoscalingv1.HorizontalPodAutoscaler:
			return autoscalerV1ToV2(hpa), nil, nil
		case *autoscalingv2.HorizontalPodAutoscaler:
			older, lost := autoscalerV2ToV1(hpa)
			return older, lost, nil
		}
	}
	into, err := New(to)
	if err != nil {
		return nil, nil, err
	}
	document, err := marshalAs(obj, to)
	if err != nil {
		return nil, nil, fmt.Errorf("convert %s to %s: %w", from, to.Version, err)
	}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, Scheme(), Scheme(),
		serializer.SerializerOptions{Strict: true})
	_, _, err = strict.Decode(document, &to, into)
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		for _, field := range unknown.Errors() {
			lost = append(lost, field.Error())
		}
		err = nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("convert %s to %s: %w", from, to.Version, err)
	}
	into.GetObjectKind().SetGroupVersionKind(to)
	return into, lost, nil
}

// marshalAs returns obj's JSON with another apiVersion.
func marshalAs(obj Object, to schema.GroupVersionKind) ([]byte, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = to.GroupVersion().String(), to.Kind
	return json.Marshal(fields)
}
