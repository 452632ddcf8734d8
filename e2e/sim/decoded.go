package sim

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
)

// Decoded is what the processes of a world have decoded lately. They change nothing of it, so that
// one object does for all to whom the apiserver has sent the same bytes: those who watch, and those
// who have asked.
type Decoded struct{ young, old map[encoded]decodedAs }

// decodedAs is an object, beside the bytes that it was made from.
type decodedAs struct {
	object runtime.Object
	data   []byte
}

// encoded is an object's bytes, by where they are: those of a record are never written to,
// and do not go while they are remembered.
type encoded struct {
	data     *byte
	revision uint64
}

// remembered is how many objects are young at most.
const remembered = 256

// object is the object of some bytes at a revision; it is not the receiver's own.
func (d *Decoded) object(data []byte, revision uint64) (runtime.Object, error) {
	if revision == 0 { // of no revision of the store: a status, or the outcome of a dry run
		return decode(data, revision)
	}
	key := encoded{unsafe.SliceData(data), revision}
	if as, known := d.young[key]; known {
		return as.object, nil
	}
	as, known := d.old[key]
	if !known {
		obj, err := decode(data, revision)
		if err != nil {
			return nil, err
		}
		as = decodedAs{obj, data}
	}
	if d.young == nil || len(d.young) == remembered {
		d.young, d.old = make(map[encoded]decodedAs, remembered), d.young
	}
	d.young[key] = as
	return as.object, nil
}
