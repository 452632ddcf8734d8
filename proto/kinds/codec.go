package kinds

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
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

// magic opens every Kubernetes protobuf document.
const magic = "k8s\x00"

// Encode is obj in Kubernetes protobuf, its group, version and kind included even
// where obj does not name them.
func Encode(obj runtime.Object) ([]byte, error) { return AppendEncode(nil, obj) }

// AppendEncode appends what Encode returns to dst, without a copy on the way.
func AppendEncode(dst []byte, obj runtime.Object) ([]byte, error) {
	gvk, err := GVK(obj)
	if err != nil {
		return nil, err
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

// Decode reads what Encode wrote. The object's apiVersion and kind are set.
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

// DecodeAny is Decode for messages that need not have metadata, such as a
// metav1.Status.
func DecodeAny(data []byte) (runtime.Object, error) {
	decoded, gvk, err := decoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	decoded.GetObjectKind().SetGroupVersionKind(*gvk)
	return decoded, nil
}

//nolint:gochecknoglobals // built once, on first use; nothing changes it
var decoder = sync.OnceValue(func() *protobuf.Serializer {
	return protobuf.NewSerializer(Scheme(), Scheme())
})

// GVK is the group, version and kind of obj by its Go type.
func GVK(obj runtime.Object) (schema.GroupVersionKind, error) {
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
