package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/daemon"
)

var (
	errBroken = errors.New("broken")
	errLater  = errors.New("later")
)

func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("wait: %w", ctx.Err())
}

func TestRunReturnsTheFirstFailureAfterAllHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			return errLater
		}
		fails := func(context.Context) error {
			time.Sleep(time.Second)
			return errBroken
		}
		if err := daemon.Run(t.Context(), untilEnd, slow, fails); !errors.Is(err, errBroken) {
			t.Errorf("Run: %v, want %v", err, errBroken)
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("Run returned after %v, want it to wait 6s for the slow part", took)
		}
	})
}

func TestRunEndsAllWhenOnePartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := func(context.Context) error { return nil }
		if err := daemon.Run(t.Context(), untilEnd, ends, untilEnd); err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"canceled": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
		} {
			ctx, cancel := end(t.Context())
			defer cancel()
			if err := daemon.Run(ctx, untilEnd, untilEnd); err != nil {
				t.Errorf("%s: Run: %v, want nil", name, err)
			}
		}
	})
}

func TestRunReportsAFailureOnTheWayDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		fails := func(ctx context.Context) error {
			<-ctx.Done()
			return errBroken
		}
		if err := daemon.Run(ctx, untilEnd, fails); !errors.Is(err, errBroken) {
			t.Errorf("Run: %v, want %v", err, errBroken)
		}
	})
}

func TestGroupKeepsGoingWhenOneEndsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := daemon.NewGroup(t.Context())
		var ended bool
		group.Go(func(context.Context) error { return nil })
		group.Go(func(ctx context.Context) error {
			err := untilEnd(ctx)
			ended = true
			return err
		})
		synctest.Wait()
		if ended {
			t.Error("a goroutine that ended well has ended the other")
		}
		group.Stop()
		if err := group.Wait(); err != nil || !ended {
			t.Errorf("Wait: %v, ended %v; want nil, true", err, ended)
		}
	})
}

func TestGroupEndsAllWhenOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := daemon.NewGroup(t.Context())
		group.Go(untilEnd)
		group.Go(func(context.Context) error {
			group.Go(untilEnd)
			return errBroken
		})
		if err := group.Wait(); !errors.Is(err, errBroken) {
			t.Errorf("Wait: %v, want %v", err, errBroken)
		}
	})
}
