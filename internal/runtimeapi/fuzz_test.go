package runtimeapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
)

// FuzzEnvelope: whatever arrives as a call of the runtime, it is a request of its
// method's own type in an envelope of this version, or is refused as invalid.
func FuzzEnvelope(f *testing.F) {
	names := slices.Sorted(maps.Keys(methods()))
	body, err := protobuf.Marshal(&proto.StopContainerRequest{ContainerId: "c1"})
	if err != nil {
		f.Fatal(err)
	}
	whole, err := protobuf.Marshal(&proto.RuntimeRequest{
		Version: proto.Version, Caller: "kubelet", Boot: "b1", Call: "7", TimeoutNano: int64(time.Minute), Body: body,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(slices.Index(names, stopContainer)), whole)
	f.Add(uint8(slices.Index(names, runPodSandbox)), whole)
	f.Add(uint8(0), whole[:len(whole)-3])
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		name := names[int(which)%len(names)]
		m := methods()[name]
		asked := false
		m.serve = func(context.Context, Runtime, protobuf.Message) (protobuf.Message, error) {
			asked = true
			return m.answer(), nil
		}
		s := &server{calls: newCalls()}
		_, err := s.decodeAndServe(t.Context(), &bus.Call{Data: data}, m, fault.CRI(name))
		if runtimeErr := new(proto.RuntimeError); err != nil && (asked || !errors.As(err, &runtimeErr) || runtimeErr.Code != proto.CodeInvalidArgument) {
			t.Errorf("%s: %v is no refusal", name, err)
		}
		if (err == nil) != asked {
			t.Errorf("%s: asked %v, and %v", name, asked, err)
		}
		if len(s.calls.open) != 0 {
			t.Error("the call has ended and is still open")
		}
		var envelope proto.RuntimeRequest
		if protobuf.Unmarshal(data, &envelope) == nil {
			s.calls.cancel(&envelope)
		}
	})
}
