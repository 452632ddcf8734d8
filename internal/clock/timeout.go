package clock

import (
	"context"
	"errors"
	"time"
)

// Timeout returns a context that ends with context.DeadlineExceeded after d of cluster time. Its
// Deadline is a wall time, computed from the current schedule.
func (c Clock) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if c.driver == nil {
		return context.WithTimeout(ctx, d)
	}
	inner, end := context.WithCancelCause(ctx)
	due := c.Steady().Add(d)
	a := &alarm{due: due, callback: func() { end(errExpired) }}
	c.driver.add(a)
	if d <= 0 {
		end(errExpired)
	}
	return &timeout{inner, c.driver, due}, func() {
		c.driver.remove(a)
		end(nil)
	}
}

// errExpired is the cancel cause of the inner context after its timeout.
var errExpired = errors.New("the time is over")

// timeout is a cancellable context that reports DeadlineExceeded if errExpired was the cause.
type timeout struct {
	context.Context //nolint:containedctx // it is one
	driver          *Driver
	due             time.Time
}

// Deadline implements context.Context.
func (t *timeout) Deadline() (time.Time, bool) {
	end, ok := t.Context.Deadline()
	if when, due := t.driver.Schedule().WallTime(t.due, time.Now()); due && (!ok || when.Before(end)) {
		return when, true
	}
	return end, ok
}

// Err implements context.Context.
func (t *timeout) Err() error {
	if t.hasExpired() {
		return context.DeadlineExceeded
	}
	return t.Context.Err()
}

func (t *timeout) hasExpired() bool { return errors.Is(context.Cause(t.Context), errExpired) }

// Value implements context.Context. It hides the inner context from derived contexts: they would
// end with the inner context's error instead of the timeout's. Derived contexts use AfterFunc
// instead.
func (t *timeout) Value(key any) any {
	value := t.Context.Value(key)
	if value == any(t.Context) && (t.hasExpired() || t.Context.Err() == nil) {
		return nil
	}
	return value
}

// AfterFunc lets package context propagate the end to derived contexts without a waiting goroutine.
func (t *timeout) AfterFunc(f func()) func() bool { return context.AfterFunc(t.Context, f) }
