package kubelet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadyWhenReached has a node whose handlers are slow: it is not ready before clients reach
// all of them, whatever else it could do by then.
func TestReadyWhenReached(t *testing.T) {
	onStage(t, func(s *stage) {
		var ready atomic.Bool
		p, err := assemble(Config{
			Node: "n1", DataDir: s.dir, Timing: s.timing, Compat: s.compat, Ready: func() { ready.Store(true) },
		}, s.api, s.runtime)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		heard := make(chan struct{}, 2)
		ended := make(chan error)
		parts := []func(context.Context) error{p.relister.Run, p.followPods, func(ctx context.Context) error { return p.registerAndReport(ctx, heard) }}
		for _, part := range parts {
			go func() { ended <- part(ctx) }()
		}
		for range cap(heard) {
			time.Sleep(time.Minute)
			if ready.Load() {
				t.Error("it is ready although clients cannot reach one of its handlers")
			}
			heard <- struct{}{}
		}
		synctest.Wait()
		if !ready.Load() {
			t.Error("it is not ready")
		}
		cancel()
		for range parts {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
