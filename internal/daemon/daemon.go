// Package daemon gives every goroutine an owner that waits for it.
//
// A service is a list of parts that live and die together: [Run] starts them and
// returns when all have ended. Where goroutines come and go while a service runs, a
// [Group] owns them.
//
// # Blocking
//
// Both wait for as long as a part takes to return after its context has ended; there
// is no timeout and no way to leave one behind.
package daemon

import (
	"context"
	"errors"
	"sync"
)

// Run runs every part in a goroutine of its own until one returns or ctx ends, then
// ends the others' context, waits for all, and returns the first failure. To return
// because the context ended is not a failure: a service that was asked to end returns
// nil.
func Run(ctx context.Context, parts ...func(context.Context) error) error {
	group := NewGroup(ctx)
	for _, part := range parts {
		group.Go(func(ctx context.Context) error {
			defer group.Stop()
			return group.note(part(ctx))
		})
	}
	return group.Wait()
}

// Group is a set of goroutines with one owner, who calls Wait. The first that fails
// ends the context of the others.
type Group struct {
	ctx     context.Context //nolint:containedctx // the group is the context's lifetime
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	err error
}

// NewGroup is an empty group whose goroutines get a context that ends with ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// Go runs part. An error ends the context of the whole group; nil ends nothing. It may
// be called by the owner and by goroutines of the group, not after Wait has returned.
func (g *Group) Go(part func(context.Context) error) {
	g.running.Go(func() {
		if err := g.note(part(g.ctx)); err != nil {
			g.cancel()
		}
	})
}

// note keeps the first failure, and gives err back.
func (g *Group) note(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil && err != nil && !errors.Is(err, g.ctx.Err()) {
		g.err = err
	}
	return err
}

// Stop ends the context of the group's goroutines; Wait waits for them.
func (g *Group) Stop() { g.cancel() }

// Wait returns when all goroutines have, with the error of the first that failed. The
// end of the group's context is no failure.
func (g *Group) Wait() error {
	g.running.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
