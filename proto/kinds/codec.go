package kinds

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/json"
)

// Object is any API object that has metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// The content types of objects on the bus.
const (
	ContentTypeProtobuf = runtime.ContentTypeProtobuf
	ContentTypeJSON     = runtime.ContentTypeJSON
)

// ContentTypeOf returns the content type of data from [Encode].
func ContentTypeOf(encoded []byte) string {
	if len(encoded) > 0 && encoded[0] == '{' {
		return ContentTypeJSON
	}
	return ContentTypeProtobuf
}

// magic is the prefix of every Kubernetes protobuf document.
const magic = "k8s\x00"

// Encode returns obj in Kubernetes protobuf, with its group, version and kind even if obj does not
// name them. A custom resource has no protobuf form and becomes JSON: no protobuf document begins
// with a brace.
func Encode(obj runtime.Object) ([]byte, error) { return AppendEncode(nil, obj) }

// AppendEncode appends the output of Encode to dst without an intermediate copy.
func AppendEncode(dst []byte, obj runtime.Object) ([]byte, error) {
	gvk, err := GVK(obj)
	if err != nil {
		return nil, err
	}
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return appendJSON(dst, custom, gvk)
	}
	message, ok := obj.(interface {
		Size() int
		MarshalTo(data []byte) (int, error)
		MarshalToSizedBuffer(data []byte) (int, error)
	})
	if !ok {
		return nil, fmt.Errorf("encode %s: it has no protobuf form", gvk.Kind)
	}
	document := runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
	}
	raw := message.Size()
	from := len(dst) + len(magic)
	dst = slices.Grow(dst, len(magic)+document.Size()+1+binary.MaxVarintLen64+raw)
	dst = append(dst, magic...)
	n, err := document.NestedMarshalTo(dst[from:cap(dst)], message, uint64(raw))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return dst[:from+n], nil
}

// appendJSON is AppendEncode for a custom resource. Map keys are sorted, so that equal objects have
// equal bytes.
func appendJSON(dst []byte, obj *unstructured.Unstructured, gvk schema.GroupVersionKind) ([]byte, error) {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return append(dst, data...), nil
}

// Decode decodes the output of Encode. It sets apiVersion and kind.
func Decode(data []byte) (Object, error) {
	decoded, err := DecodeAny(data)
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(Object)
	if !ok {
		return nil, fmt.Errorf("decode %T: it has no metadata", decoded)
	}
	return obj, nil
}

// DecodeAny is Decode for messages that may lack metadata, for example a metav1.Status.
func DecodeAny(data []byte) (runtime.Object, error) {
	if len(data) > 0 && data[0] == '{' {
		return decodeJSON(data)
	}
	decoded, gvk, err := decoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	decoded.GetObjectKind().SetGroupVersionKind(*gvk)
	return decoded, nil
}

// decodeJSON decodes a custom resource. Built-in kinds are never encoded as JSON.
func decodeJSON(data []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &obj.Object); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if _, err := customGVK(obj); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return obj, nil
}

//nolint:gochecknoglobals // built once, on first use; nothing changes it
var decoder = sync.OnceValue(func() *protobuf.Serializer {
	return protobuf.NewSerializer(Scheme(), Scheme())
})

// GVK returns the group, version and kind of obj: by its Go type, or from its content for a custom
// resource.
func GVK(obj runtime.Object) (schema.GroupVersionKind, error) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return customGVK(custom)
	}
	known, _, err := Scheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("kind of %T: %w", obj, err)
	}
	named := obj.GetObjectKind().GroupVersionKind()
	for _, gvk := range known {
		if gvk == named {
			return gvk, nil
		}
	}
	return known[0], nil
}

// customGVK returns the group, version and kind that a custom resource names. It refuses built-in
// kinds: they must use their Go type, or they could be stored in two forms.
func customGVK(obj *unstructured.Unstructured) (schema.GroupVersionKind, error) {
	gvk := obj.GroupVersionKind()
	if gvk.Group == "" || gvk.Version == "" || gvk.Kind == "" {
		return gvk, fmt.Errorf("kind of a custom resource: want an apiVersion with a group and a version, and a kind, not %q and %q",
			obj.GetAPIVersion(), obj.GetKind())
	}
	if _, builtIn := ByGVK(gvk); builtIn {
		return gvk, fmt.Errorf("kind of a custom resource: %s is built in, so want its Go type and not JSON", gvk)
	}
	return gvk, nil
}
