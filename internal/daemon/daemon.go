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
// ends the others' context, waits for all, and returns the first cause: what the first
// part to return returned. When that is an end of ctx, or nil, Run returns nil: a
// service that was asked to end has not failed.
func Run(ctx context.Context, parts ...func(context.Context) error) error {
	group := NewGroup(ctx)
	for _, part := range parts {
		group.Go(func(ctx context.Context) error {
			err := part(ctx)
			group.end(err)
			return err
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
	once    sync.Once
	err     error
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
		if err := part(g.ctx); err != nil {
			g.end(err)
		}
	})
}

// end records the first cause and ends the group's context.
func (g *Group) end(err error) {
	g.once.Do(func() {
		if g.ctx.Err() == nil || !errors.Is(err, context.Canceled) {
			g.err = err
		}
	})
	g.cancel()
}

// Stop ends the context of the group's goroutines; Wait waits for them.
func (g *Group) Stop() { g.end(nil) }

// Wait returns when all goroutines have, with the error of the first that failed before
// Stop. The end of ctx is no error.
func (g *Group) Wait() error {
	g.running.Wait()
	g.cancel()
	return g.err
}
