package clock

import (
	"context"
	"errors"
	"time"
)

// Timeout is a context that ends after d of cluster time, with context.DeadlineExceeded. Its
// Deadline, which is on the wall, is when that will be as things are.
func (c Clock) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if c.movement == nil {
		return context.WithTimeout(ctx, d)
	}
	inner, end := context.WithCancelCause(ctx)
	due := c.Steady().Add(d)
	a := &alarm{due: due, then: func() { end(errExpired) }}
	c.movement.add(a)
	if d <= 0 {
		end(errExpired)
	}
	return &timeout{inner, c.movement, due}, func() {
		c.movement.remove(a)
		end(nil)
	}
}

// errExpired is why the context inside a timeout has ended, when its time was over.
var errExpired = errors.New("the time is over")

// timeout is a context that can be cancelled, and says that its deadline has passed when
// that was the cause.
type timeout struct {
	context.Context //nolint:containedctx // it is one
	movement        *Movement
	due             time.Time
}

// Deadline implements context.Context.
func (t *timeout) Deadline() (time.Time, bool) {
	end, ok := t.Context.Deadline()
	if when, due := t.movement.Face().When(t.due, time.Now()); due && (!ok || when.Before(end)) {
		return when, true
	}
	return end, ok
}

// Err implements context.Context.
func (t *timeout) Err() error {
	if t.expired() {
		return context.DeadlineExceeded
	}
	return t.Context.Err()
}

func (t *timeout) expired() bool { return errors.Is(context.Cause(t.Context), errExpired) }

// Value implements context.Context. It hides the context inside from its heirs, which
// would end with its error and not with the timeout's; they find AfterFunc instead.
func (t *timeout) Value(key any) any {
	value := t.Context.Value(key)
	if value == any(t.Context) && (t.expired() || t.Context.Err() == nil) {
		return nil
	}
	return value
}

// AfterFunc is by what package context tells heirs of an end without a goroutine that
// waits for it.
func (t *timeout) AfterFunc(f func()) func() bool { return context.AfterFunc(t.Context, f) }
