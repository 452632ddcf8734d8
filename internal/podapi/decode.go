package podapi

import (
	"errors"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

var errNoObject = errors.New("the answer holds no object")

// decodeItem decodes an item to an object with the item's revision in it, or to a status.
func decodeItem(item *proto.Item) (runtime.Object, error) {
	if item == nil {
		return nil, errNoObject
	}
	return decodeObject(item.GetObject(), item.GetRevision())
}

func decodeObject(data []byte, revision uint64) (runtime.Object, error) {
	decoded, err := kinds.DecodeAny(data)
	if err != nil {
		return nil, err
	}
	if obj, ok := decoded.(kinds.Object); ok && revision != 0 { // a dry run has no revision
		obj.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	return decoded, nil
}

// decodeStatus decodes the error in an answer with code 400 or more.
func decodeStatus(code int32, item *proto.Item) error {
	decoded, err := decodeItem(item)
	if err != nil {
		return fmt.Errorf("refused with code %d and no readable reason: %w", code, err)
	}
	status, ok := decoded.(*metav1.Status)
	if !ok {
		return fmt.Errorf("refused with code %d and a %T", code, decoded)
	}
	if status.Status == metav1.StatusSuccess {
		return fmt.Errorf("refused with code %d and a status of success", code)
	}
	return proto.ErrorFrom(status)
}

// decodeEvent decodes one change for the consumer of a watch.
func decodeEvent(kind kinds.Kind, event *proto.Event) (watch.Event, error) {
	if event.GetType() == proto.EventType_EVENT_TYPE_BOOKMARK {
		return decodeBookmark(kind, event)
	}
	eventType, err := eventType(event.GetType())
	if err != nil {
		return watch.Event{}, err
	}
	obj, err := decodeObject(event.GetObject(), event.GetRevision())
	if err != nil {
		return watch.Event{}, err
	}
	return watch.Event{Type: eventType, Object: setVersion(kind, obj)}, nil
}

// setVersion sets a custom resource's version to the requested one. The live stream is shared by
// readers of all versions and carries the stored version.
func setVersion(kind kinds.Kind, obj runtime.Object) runtime.Object {
	custom, ok := obj.(*unstructured.Unstructured)
	if ok && custom.GroupVersionKind().GroupKind() == kind.GroupKind() {
		custom.SetGroupVersionKind(kind.GroupVersionKind)
	}
	return obj
}

func eventType(onWire proto.EventType) (watch.EventType, error) {
	switch onWire {
	case proto.EventType_EVENT_TYPE_ADDED:
		return watch.Added, nil
	case proto.EventType_EVENT_TYPE_MODIFIED:
		return watch.Modified, nil
	case proto.EventType_EVENT_TYPE_DELETED:
		return watch.Deleted, nil
	case proto.EventType_EVENT_TYPE_BOOKMARK:
		return watch.Bookmark, nil
	case proto.EventType_EVENT_TYPE_ERROR:
		return watch.Error, nil
	case proto.EventType_EVENT_TYPE_UNSPECIFIED:
	}
	return "", fmt.Errorf("watch event of unknown type %d", onWire)
}

// decodeBookmark returns an object of the watched kind that holds only a revision and, at the end
// of the initial events, the annotation for it (WCH-12, WCH-24).
func decodeBookmark(kind kinds.Kind, event *proto.Event) (watch.Event, error) {
	obj, err := kinds.NewOf(kind)
	if err != nil {
		return watch.Event{}, fmt.Errorf("bookmark of %s: %w", kind.Kind, err)
	}
	obj.SetResourceVersion(strconv.FormatUint(event.GetRevision(), 10))
	if event.GetInitialEventsEnd() {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}, nil
}
