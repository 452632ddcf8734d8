package remote_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

// streamEnd is one end of a stream in this process.
type streamEnd struct {
	in, out chan []byte
	done    chan struct{} // the other end has closed
	left    chan struct{} // this one has
	broken  error         // instead of io.EOF
}

func newStream() (client, server *streamEnd) {
	up, down := make(chan []byte), make(chan []byte)
	clientLeft, serverLeft := make(chan struct{}), make(chan struct{})
	return &streamEnd{in: down, out: up, done: serverLeft, left: clientLeft}, &streamEnd{in: up, out: down, done: clientLeft, left: serverLeft}
}

func (e *streamEnd) Send(ctx context.Context, frame []byte) error {
	select {
	case e.out <- frame:
		return nil
	case <-e.done:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *streamEnd) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-e.in:
		return frame, nil
	case <-e.done:
		if e.broken != nil {
			return nil, e.broken
		}
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *streamEnd) Done() <-chan struct{} { return e.done }

func (e *streamEnd) close() { close(e.left) }

func TestRelay(t *testing.T) {
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		end    func(client, process, relayed *streamEnd)
		broken error
		want   error
	}{
		"the process's side ends": {end: func(_, process, _ *streamEnd) { process.close() }},
		"the process's side breaks": {
			end: func(_, process, relayed *streamEnd) { relayed.broken = broken; process.close() }, want: broken,
		},
		"the client leaves": {end: func(client, _, _ *streamEnd) { client.close() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, near := newStream()
				far, process := newStream()
				ended := make(chan error, 1)
				go func() { ended <- remote.Relay(t.Context(), near, far) }()
				go func() {
					if err := remote.Offer(t.Context(), process); err != nil {
						t.Error(err)
					}
				}()
				if err := remote.AwaitOffer(t.Context(), client); err != nil {
					t.Fatal(err)
				}
				if err := remote.AcceptOffer(t.Context(), client); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				row.end(client, process, far)
				if err := <-ended; !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
					t.Errorf("Relay: %v, want %v", err, row.want)
				}
			})
		})
	}
}

// A client that leaves is noticed even while the process neither reads nor writes.
func TestRelayWhileStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := newStream()
		far, _ := newStream()
		ended := make(chan error, 1)
		go func() { ended <- remote.Relay(t.Context(), near, far) }()
		if err := client.Send(t.Context(), proto.StreamFrame(proto.ChannelStdin, []byte("x"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the relay waits for the process to take it
		client.close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAwaitOfferReturnsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, process := newStream()
		go func() {
			if err := remote.SendStatus(t.Context(), process, proto.NotImplemented("it is scripted")); err != nil {
				t.Error(err)
			}
		}()
		err := remote.AwaitOffer(t.Context(), client)
		var refused *apierrors.StatusError
		if !errors.As(err, &refused) || refused.ErrStatus.Code != 501 || refused.ErrStatus.Message != "it is scripted" {
			t.Errorf("Await: %v", err)
		}
	})
}
