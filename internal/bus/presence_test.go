package bus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
)

// A handler can ask whether the connection that called it is still there: yes while it
// waits, yes after it has given up the call, no once it has left.
func TestIsRequesterPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		server, answerer, asker := dialPair(ctx, t)
		defer server.Close()
		defer answerer.Close()

		ask, present := make(chan struct{}), make(chan bool)
		served := make(chan error, 1)
		go func() {
			served <- answerer.Serve(ctx, "cri.Wait", func(ctx context.Context, call *bus.Call) {
				for range ask {
					present <- call.IsRequesterPresent(ctx)
				}
			})
		}()
		synctest.Wait()
		calling, giveUp := context.WithCancel(ctx)
		gaveUp := make(chan error, 1)
		go func() {
			_, err := asker.Request(calling, proto.Runtime, "cri.Wait", nil)
			gaveUp <- err
		}()
		synctest.Wait()

		began := time.Now()
		want := func(state string, want bool) {
			t.Helper()
			ask <- struct{}{}
			if got := <-present; got != want {
				t.Errorf("%s: present %v, want %v", state, got, want)
			}
		}
		want("the requester waits", true)
		giveUp()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("Request: %v, want %v", err, context.Canceled)
		}
		want("the requester gave up", true)
		asker.Close()
		synctest.Wait()
		want("the requester left", false)
		if took := time.Since(began); took != 0 {
			t.Errorf("asking took %v, want no time", took)
		}
		close(ask)
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
