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

// said is a process's side that has said one thing.
type said []byte

func (s said) Send(context.Context, []byte) error      { return nil }
func (s said) Receive(context.Context) ([]byte, error) { return s, nil }
func (s said) Done() <-chan struct{}                   { return nil }

// FuzzParseStatus: whatever the other side says is an end, a status is read from it as it
// says it again, or it is quoted; and one that comes instead of an offer is no offer.
func FuzzParseStatus(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		status, err := remote.ParseStatus(text)
		awaited := remote.AwaitOffer(t.Context(), said(proto.StreamFrame(proto.ChannelError, text)))
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
