package gateway

import (
	"bytes"
	"encoding/binary"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto/kinds"
)

// framer makes the frames of one watch.
type framer struct {
	printer printer
	// clock tells when an event is printed: ages in a Table are as of then.
	clock clock.Clock
	// bare leaves out the frame's length, for WebSockets, whose messages have one.
	bare bool
	// begun says that the columns of a Table have been sent (PRN-01).
	begun bool
}

// frameKey is everything that a frame depends on besides its event.
type frameKey struct {
	gvk     schema.GroupVersionKind
	form    form
	include metav1.IncludeObjectPolicy
	bare    bool
	// columns says that a Table has them.
	columns bool
}

// framer is for the form that the client wants events in. There is no YAML stream.
func (c *call) framer() (*framer, error) {
	offer := offers{media: []string{mediaJSON, mediaProtobuf}, shapes: []shape{asTable, asPartial}}
	if c.kind.Custom {
		offer.media = offer.media[:1]
	}
	as, err := negotiate(c.r, offer)
	if err != nil {
		return nil, err
	}
	as.pretty = false // a frame is a line
	shaper, err := c.printer(as)
	return &framer{printer: shaper, clock: c.cfg.Clock, bare: webSocket(c.r)}, err
}

// contentType is the answer's.
func (f *framer) contentType() string {
	if f.printer.form.media == mediaProtobuf {
		return mediaProtobuf + ";stream=watch"
	}
	return f.printer.form.media
}

// frame is one event of the watch.
func (f *framer) frame(e *event) ([]byte, error) {
	key := frameKey{
		gvk: f.printer.kind.GroupVersionKind, form: f.printer.form, include: f.printer.include,
		bare: f.bare, columns: !f.begun,
	}
	if e.Type != watch.Error {
		f.begun = true
	}
	return e.frame(key, func(change watch.Event) ([]byte, error) { return f.encode(change, key.columns) })
}

// columns says whether a Table has its columns.
func (f *framer) encode(change watch.Event, columns bool) ([]byte, error) { //nolint:revive // not a choice of behaviour: the key's
	obj, err := inVersion(change.Object, f.printer.kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	f.printer.view.Now = f.clock.Now()
	shaped := f.printer.one(obj)
	if table, ok := shaped.(*metav1.Table); ok && !columns {
		table.ColumnDefinitions = nil
	}
	var data bytes.Buffer
	if err := encode(&data, shaped, f.printer.form); err != nil {
		return nil, err
	}
	if f.printer.form.media == mediaProtobuf {
		return f.binary(change.Type, data.Bytes())
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", change.Type, bytes.TrimRight(data.Bytes(), "\n")), nil
}

// binary is a WatchEvent behind its length.
func (f *framer) binary(of watch.EventType, obj []byte) ([]byte, error) {
	message := &metav1.WatchEvent{Type: string(of), Object: runtime.RawExtension{Raw: obj}}
	data, err := message.Marshal()
	if err != nil || f.bare {
		return data, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...), nil
}

// inVersion is obj in the version that its reader asked for: a watch on the bus is of
// objects as they are stored. A Status is what it is.
func inVersion(obj runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	object, ok := obj.(kinds.Object)
	if !ok {
		return obj, nil
	}
	converted, _, err := kinds.Convert(object, gvk)
	return converted, err
}
