package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
)

// Event is what is about to happen to an object.
type Event struct {
	admission.Attributes

	// Operation is the id of the request.
	Operation string
	// Body is the kind of Object if a subresource has one of its own, for example Binding; empty
	// means that of the attributes.
	Body schema.GroupVersionKind
	// Object is the object to be stored, in the stored version; nil for a delete.
	Object kinds.Object
	// Old is the stored object; nil for a create.
	Old kinds.Object
	// Options are the verb's options, of a metav1 type.
	Options any
	DryRun  bool
	// NamespaceObject is the object's namespace; nil if the object has none or the namespace does
	// not exist.
	NamespaceObject *corev1.Namespace
}

// admissionOperation returns the verb in admission's terms.
func (e Event) admissionOperation() admissionv1.Operation {
	switch e.Verb {
	case proto.VerbCreate:
		return admissionv1.Create
	case proto.VerbUpdate, proto.VerbPatch:
		return admissionv1.Update
	case proto.VerbDelete, proto.VerbDeleteCollection:
		return admissionv1.Delete
	case proto.VerbGet, proto.VerbList, proto.VerbWatch:
	}
	return admissionv1.Connect
}

// bodyKind returns the kind of the object that is sent.
func (e Event) bodyKind(matched kinds.Kind) schema.GroupVersionKind {
	if e.Body.Kind != "" {
		return e.Body
	}
	return matched.GroupVersionKind
}

// encodeAs returns an object in JSON, in the version of gvk; nil for nil.
func encodeAs(obj kinds.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	if obj == nil {
		return nil, nil
	}
	converted, _, err := kinds.Convert(obj, gvk)
	if err != nil {
		return nil, err
	}
	if converted.GetObjectKind().GroupVersionKind() != gvk {
		copied, ok := converted.DeepCopyObject().(kinds.Object)
		if !ok {
			return nil, fmt.Errorf("the deep copy of a %T has no metadata", converted)
		}
		converted = copied
		converted.GetObjectKind().SetGroupVersionKind(gvk)
	}
	data, err := json.Marshal(converted)
	return bytes.TrimSpace(data), err
}
