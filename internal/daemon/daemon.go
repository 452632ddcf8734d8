// Package daemon gives every goroutine an owner that waits for it.
//
// A service is a list of parts that start and end together: [Run] starts them and returns when all
// have ended. A [Group] owns goroutines that start and end while a service runs.
//
// # Blocking
//
// Both wait until all parts have returned after the end of their context. There is no timeout and
// no way to abandon a part.
package daemon

import (
	"context"
	"errors"
	"sync"
)

// Run runs every part on its own goroutine until one returns or ctx ends. Then it ends the others'
// context, waits for all, and returns the first error. Returning because the context ended is not
// an error: a service that was asked to end returns nil.
func Run(ctx context.Context, parts ...func(context.Context) error) error {
	group := NewGroup(ctx)
	for _, part := range parts {
		group.Go(func(ctx context.Context) error {
			defer group.Stop()
			return group.recordError(part(ctx))
		})
	}
	return group.Wait()
}

// Group is a set of goroutines with one owner, which calls Wait. The first failure ends the context
// of all.
type Group struct {
	ctx     context.Context //nolint:containedctx // the group is the context's lifetime
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	err error
}

// NewGroup returns an empty group. Its context ends with ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// Go runs part. An error ends the context of the group; nil ends nothing. The owner and goroutines
// of the group may call it until Wait has returned.
func (g *Group) Go(part func(context.Context) error) {
	g.running.Go(func() {
		if err := g.recordError(part(g.ctx)); err != nil {
			g.cancel()
		}
	})
}

// recordError keeps the first failure, and returns err.
func (g *Group) recordError(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil && err != nil && !errors.Is(err, g.ctx.Err()) {
		g.err = err
	}
	return err
}

// Stop ends the context of the group; Wait waits for its goroutines.
func (g *Group) Stop() { g.cancel() }

// Wait returns when all goroutines have returned, with the first error. The end of the group's
// context is not an error.
func (g *Group) Wait() error {
	g.running.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
