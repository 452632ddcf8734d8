package history

import (
	"context"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Still is a process that stood still from the event's beginning to its end: somebody had
// paused it, or the machine had no processor for it.
type Still struct{}

// Name implements Fact.
func (Still) Name() Name { return NameStill }

const (
	// beat is how often Beat wants to run, and late how long after the last beat a beat is
	// taken for the end of standing still; both on the wall.
	beat = 200 * time.Millisecond
	late = 500 * time.Millisecond
)

// Beat records each time that the process has stood still for half a second or more, until
// ctx ends, and returns nil. What it records begins up to a fifth of a second early.
func (r *Recorder) Beat(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	wall := clock.Clock{}
	for last := r.Began(); wall.Sleep(ctx, beat) == nil; {
		now := r.Began()
		if time.Duration(now-last) >= late {
			r.Done(last, "", Still{})
		}
		last = now
	}
	return nil
}
