package verbs

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// storedResponse returns the answer with a stored version, in the requested version of its kind.
func storedResponse(code int32, kind kinds.Kind, record *store.Record, warnings []string) (*proto.Response, error) {
	item, err := itemOf(kind, record)
	if err != nil {
		return nil, err
	}
	return &proto.Response{Code: code, Item: item, Warnings: warnings}, nil
}

// itemOf encodes a stored version for the wire. For the kind's preferred version, which is the
// stored one, the item has the store's own bytes.
func itemOf(kind kinds.Kind, record *store.Record) (*proto.Item, error) {
	if kind.GroupVersionKind == kinds.Preferred(kind).GroupVersionKind {
		return &proto.Item{Revision: uint64(record.Revision), Object: record.Data}, nil
	}
	return encodeItem(kind, record.Object)
}

// unstoredResponse returns the answer with an object that is not, or not in this form, in the
// store: the result of a dry run, or the reader's own copy. Its revision is the one that it was
// made from.
func unstoredResponse(code int32, kind kinds.Kind, obj kinds.Object, warnings []string) (*proto.Response, error) {
	item, err := encodeItem(kind, obj)
	if err != nil {
		return nil, err
	}
	return &proto.Response{Code: code, Item: item, Warnings: warnings}, nil
}

func encodeItem(kind kinds.Kind, obj kinds.Object) (*proto.Item, error) {
	revision, err := revisionOf(obj)
	if err != nil {
		return nil, err
	}
	converted, _, err := kinds.Convert(obj, kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	bare, ok := converted.DeepCopyObject().(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("encode %T: it has no metadata", converted)
	}
	bare.SetResourceVersion("")
	data, err := kinds.Encode(bare)
	if err != nil {
		return nil, err
	}
	return &proto.Item{Revision: uint64(revision), Object: data}, nil
}

// revisionOf returns the revision that obj names; 0 if it names none.
func revisionOf(obj metav1.Object) (int64, error) {
	text := obj.GetResourceVersion()
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 0 {
		return 0, fmt.Errorf("metadata.resourceVersion: want a revision, not %q", text)
	}
	return revision, nil
}

// successResponse returns an answer with a Status of success; details may be nil.
func successResponse(code int32, details *metav1.StatusDetails, warnings []string) (*proto.Response, error) {
	if details == nil {
		data, err := bareSuccess()
		return &proto.Response{Code: code, Item: &proto.Item{Object: data}, Warnings: warnings}, err
	}
	return statusResponse(newSuccess(code, details), warnings)
}

func newSuccess(code int32, details *metav1.StatusDetails) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess, Code: code, Details: details,
	}
}

// bareSuccess encodes a success without details, which has no code on the wire.
//
//nolint:gochecknoglobals // built once, on first use; nothing changes it
var bareSuccess = sync.OnceValues(func() ([]byte, error) { return kinds.Encode(newSuccess(0, nil)) })

// Refusal returns the answer to a request that err refused.
func Refusal(err error) (*proto.Response, error) { return statusResponse(proto.StatusFrom(err), nil) }

func statusResponse(s *metav1.Status, warnings []string) (*proto.Response, error) {
	code := s.Code
	if s.Status == metav1.StatusSuccess {
		s.Code = 0
	}
	data, err := kinds.Encode(runtime.Object(s))
	if err != nil {
		return nil, err
	}
	if code == 0 {
		code = http.StatusInternalServerError
	}
	return &proto.Response{Code: code, Item: &proto.Item{Object: data}, Warnings: warnings}, nil
}
