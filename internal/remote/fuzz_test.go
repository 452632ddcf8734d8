package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

// singleFrame is a process's side that has sent one frame.
type singleFrame []byte

func (s singleFrame) Send(context.Context, []byte) error      { return nil }
func (s singleFrame) Receive(context.Context) ([]byte, error) { return s, nil }
func (s singleFrame) Done() <-chan struct{}                   { return nil }

// FuzzParseStatus: any frame of the other side is parsed. A status survives encoding, or the error
// quotes the data. A status instead of an offer is not an offer.
func FuzzParseStatus(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		status, err := remote.ParseStatus(text)
		awaited := remote.AwaitOffer(t.Context(), singleFrame(proto.StreamFrame(proto.ChannelError, text)))
		if awaited == nil {
			t.Errorf("%q was taken for an offer", text)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "error stream protocol error: ") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		refused, ok := errors.AsType[*apierrors.StatusError](awaited)
		if !ok || !reflect.DeepEqual(refused.ErrStatus, *status) {
			t.Errorf("%q: refused with %#v", text, awaited)
		}
		first, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		again, err := remote.ParseStatus(first)
		if err != nil {
			t.Fatalf("wrote %s, which cannot be read: %v", first, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(first) {
			t.Errorf("wrote %s, read, and wrote %s (%v)", first, second, err)
		}
	})
}
