package sim

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
)

// Decoded is what the followers of a world have decoded lately. Who follows changes nothing
// that it is given, so that one object does for all to whom the apiserver has sent the same
// bytes.
type Decoded struct{ young, old map[encoded]runtime.Object }

// encoded is an object's bytes, by where they are: those of a record are never written to,
// and do not go while it is remembered where they are.
type encoded struct {
	data     *byte
	revision uint64
}

// remembered is how many objects are young at most.
const remembered = 256

// object is the object of some bytes at a revision; it is not the receiver's own.
func (d *Decoded) object(data []byte, revision uint64) (runtime.Object, error) {
	key := encoded{unsafe.SliceData(data), revision}
	if obj, known := d.young[key]; known {
		return obj, nil
	}
	obj, known := d.old[key]
	if !known {
		var err error
		if obj, err = decode(data, revision); err != nil {
			return nil, err
		}
	}
	if d.young == nil || len(d.young) == remembered {
		d.young, d.old = make(map[encoded]runtime.Object, remembered), d.young
	}
	d.young[key] = obj
	return obj, nil
}
