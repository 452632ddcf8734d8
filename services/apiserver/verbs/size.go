package verbs

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// MaxObject is how many bytes a write may make an object have, as it is encoded in the
// store. Every answer and every watch event carries whole objects, so what is larger than
// the bus carries could never be read again. It is as much as a request's body may have;
// a patch, of which nothing but the patch is sent, could make more.
const MaxObject = 3 << 20

// checkSize refuses with a 413 what makes an object too large. Deletions always pass: they
// add a few bytes at most, and the store has room for them. So does what makes an object
// smaller that they have made too large.
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

// sizeOf is how many bytes an object has in the store. What cannot be encoded has none, and
// the store will say so.
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
