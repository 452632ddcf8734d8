package sim

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
)

// Decoded caches recently decoded objects. Processes never change them, so all receivers of the
// same bytes share one object.
type Decoded struct{ young, old map[bytesKey]cachedObject }

// cachedObject is an object with the bytes that it was decoded from.
type cachedObject struct {
	object runtime.Object
	data   []byte
}

// bytesKey identifies an object's bytes by their address. A record's bytes are never overwritten,
// and are kept while they are cached.
type bytesKey struct {
	data     *byte
	revision uint64
}

// cacheSize is the maximum number of young objects.
const cacheSize = 256

// object is the object of some bytes at a revision; it is not the receiver's own.
func (d *Decoded) object(data []byte, revision uint64) (runtime.Object, error) {
	if revision == 0 { // of no revision of the store: a status, or the outcome of a dry run
		return decode(data, revision)
	}
	key := bytesKey{unsafe.SliceData(data), revision}
	if as, known := d.young[key]; known {
		return as.object, nil
	}
	as, known := d.old[key]
	if !known {
		obj, err := decode(data, revision)
		if err != nil {
			return nil, err
		}
		as = cachedObject{obj, data}
	}
	if d.young == nil || len(d.young) == cacheSize {
		d.young, d.old = make(map[bytesKey]cachedObject, cacheSize), d.young
	}
	d.young[key] = as
	return as.object, nil
}
