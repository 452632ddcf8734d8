package gateway

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// encode writes obj in the form f. The apiVersion and kind of obj are set. A list is written item
// by item.
func encode(w io.Writer, obj runtime.Object, f form) error {
	if err := newEncoder(f).Encode(obj, w); err != nil {
		return fmt.Errorf("encode %T as %s: %w", obj, f.media, err)
	}
	return nil
}

func newEncoder(f form) runtime.Encoder {
	switch f.media {
	case mediaProtobuf:
		return protobuf.NewSerializerWithOptions(nil, nil, protobuf.SerializerOptions{StreamingCollectionsEncoding: true})
	case mediaYAML:
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{Yaml: true})
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil,
		json.SerializerOptions{Pretty: f.pretty, StreamingCollectionsEncoding: !f.pretty})
}
