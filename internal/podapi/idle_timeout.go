package podapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// errSilent is the cause of an attempt that was given up because no data arrived.
var errSilent = errors.New("no data in time")

// withIdleTimeout runs fn with a context that ends if fn does not call heard for d of wall time.
func withIdleTimeout(ctx context.Context, d time.Duration, fn func(ctx context.Context, heard func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	signs := make(chan struct{}, 1)
	var owned sync.WaitGroup
	owned.Go(func() {
		timer := clock.Clock{}.Timer(d)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-signs:
				timer.Reset(d)
			case <-timer.C:
				cancel(errSilent)
				return
			}
		}
	})
	defer owned.Wait()
	defer cancel(nil)
	err := fn(ctx, func() {
		select {
		case signs <- struct{}{}:
		default:
		}
	})
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}
