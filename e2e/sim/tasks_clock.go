package sim

import (
	"context"
	"time"

	"github.com/podfall/podfall/internal/task"
)

// taskClock is the clock of a kubelet's tasks. It implements [task.Clock].
type taskClock struct{ k *kubeletProcess }

var _ task.Clock = taskClock{}

// Now implements [task.Clock].
func (c taskClock) Now() time.Time { return c.k.out.Shows(c.k.begun.now) }

// Steady implements [task.Clock].
func (c taskClock) Steady() time.Time { return c.k.begun.now }

// Sleep implements [task.Clock].
func (c taskClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	over := make(chan struct{})
	key := c.k.after(c.k.begun.now.Add(d), c.k.out, func(time.Time, Out) { close(over) })
	err := c.k.tasks.Wait(ctx, over)
	c.k.timers.stop(key, c.k.out)
	return err
}

// Timeout implements [task.Clock].
func (c taskClock) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(ctx)
	t := &timeLimit{Context: inner, outer: ctx, due: c.k.begun.now.Add(d)}
	if outer, ok := ctx.Deadline(); ok && outer.Before(t.due) {
		t.due = outer
	}
	key := c.k.after(t.due, c.k.out, func(time.Time, Out) {
		t.expired = inner.Err() == nil
		cancel()
	})
	return t, func() {
		c.k.timers.stop(key, c.k.out)
		cancel()
	}
}

// timeLimit is a context that ends when its time is up. Contexts that are made from it end
// with it, but say that they were cancelled.
type timeLimit struct {
	context.Context                 //nolint:containedctx // it is one
	outer           context.Context //nolint:containedctx // the one that it is made from
	due             time.Time
	expired         bool
}

// Deadline implements [context.Context].
func (t *timeLimit) Deadline() (time.Time, bool) { return t.due, true }

// Err implements [context.Context].
func (t *timeLimit) Err() error {
	if t.expired {
		return context.DeadlineExceeded
	}
	if err := t.outer.Err(); err != nil {
		return err
	}
	return t.Context.Err()
}
