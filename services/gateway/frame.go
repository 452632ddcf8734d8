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

// framer encodes the frames of one watch.
type framer struct {
	printer printer
	// clock sets the time of ages in a Table: when the event is encoded.
	clock clock.Clock
	// omitLength leaves out the frame's length: WebSocket messages have one.
	omitLength bool
	// columnsSent is whether a Table's columns have been sent (PRN-01).
	columnsSent bool
}

// frameKey is everything besides the event that a frame depends on.
type frameKey struct {
	gvk        schema.GroupVersionKind
	form       form
	include    metav1.IncludeObjectPolicy
	omitLength bool
	// withColumns is whether a Table includes its columns.
	withColumns bool
}

// newFramer returns a framer for the form that the client wants. There is no YAML stream.
func (c *call) newFramer() (*framer, error) {
	offer := offers{media: []string{mediaJSON, mediaProtobuf}, shapes: []shape{asTable, asPartial}}
	if c.kind.Custom {
		offer.media = offer.media[:1]
	}
	wanted, err := negotiate(c.r, offer)
	if err != nil {
		return nil, err
	}
	wanted.pretty = false // a frame is a line
	printer, err := c.newPrinter(wanted)
	return &framer{printer: printer, clock: c.cfg.Clock, omitLength: wantsWebSocket(c.r)}, err
}

// contentType is the response's content type.
func (f *framer) contentType() string {
	if f.printer.form.media == mediaProtobuf {
		return mediaProtobuf + ";stream=watch"
	}
	return f.printer.form.media
}

// frameEvent encodes one event, or returns its cached frame.
func (f *framer) frameEvent(e *event) ([]byte, error) {
	key := frameKey{
		gvk: f.printer.kind.GroupVersionKind, form: f.printer.form, include: f.printer.include,
		omitLength: f.omitLength, withColumns: !f.columnsSent,
	}
	if e.Type != watch.Error {
		f.columnsSent = true
	}
	return e.cachedFrame(key, func(change watch.Event) ([]byte, error) { return f.encode(change, key.withColumns) })
}

// encode encodes one event; columns is whether a Table includes its columns.
func (f *framer) encode(change watch.Event, columns bool) ([]byte, error) { //nolint:revive // not a choice of behaviour: the key's
	obj, err := convertTo(change.Object, f.printer.kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	f.printer.view.Now = f.clock.Now()
	shaped := f.printer.convertObject(obj)
	if table, ok := shaped.(*metav1.Table); ok && !columns {
		table.ColumnDefinitions = nil
	}
	var data bytes.Buffer
	if err := encode(&data, shaped, f.printer.form); err != nil {
		return nil, err
	}
	if f.printer.form.media == mediaProtobuf {
		return f.encodeWatchEvent(change.Type, data.Bytes())
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", change.Type, bytes.TrimRight(data.Bytes(), "\n")), nil
}

// encodeWatchEvent encodes a protobuf WatchEvent after its length.
func (f *framer) encodeWatchEvent(of watch.EventType, obj []byte) ([]byte, error) {
	message := &metav1.WatchEvent{Type: string(of), Object: runtime.RawExtension{Raw: obj}}
	data, err := message.Marshal()
	if err != nil || f.omitLength {
		return data, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...), nil
}

// convertTo converts obj to the client's version: watches on the bus have objects in their stored
// version. A Status stays as it is.
func convertTo(obj runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	object, ok := obj.(kinds.Object)
	if !ok {
		return obj, nil
	}
	converted, _, err := kinds.Convert(object, gvk)
	return converted, err
}
