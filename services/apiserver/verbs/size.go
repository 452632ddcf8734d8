package verbs

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// MaxObject is the largest size that a write may give an object, in bytes as encoded in the store.
// Every answer and every watch event carries whole objects, so an object that is larger than a bus
// message could not be read. It equals the limit of a request's body. A small patch could make a
// larger object, so the result is checked too.
const MaxObject = 3 << 20

// checkSize returns a 413 for a write that makes an object too large. Deletions always pass: they
// add a few bytes at most, for which the store has room. A write that makes an oversized object
// smaller passes, too.
func (a *API) checkSize(req Request, write store.Write) error {
	if write.Object == nil || req.Verb == proto.VerbDelete || req.Verb == proto.VerbDeleteCollection {
		return nil
	}
	size := sizeOf(write.Object)
	if size <= MaxObject {
		return nil
	}
	if old := a.Store.Snapshot().Get(write.Key); old != nil && size < len(old.Data) {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"%s would have %d bytes; an object may have at most %d", write.Key, size, MaxObject))
}

// sizeOf returns the size of an object in the store, in bytes. It is 0 for an object that cannot be
// encoded; the store refuses such an object.
func sizeOf(obj kinds.Object) int {
	if sized, ok := obj.(interface{ Size() int }); ok {
		return sized.Size()
	}
	data, err := kinds.Encode(obj)
	if err != nil {
		return 0
	}
	return len(data)
}
