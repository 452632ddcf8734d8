package history

import (
	"context"
	"syscall"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Stall is a process that stood still: somebody had paused it, or the machine had no
// processor for it. It is over when the event ends, and began when the event does, or less
// than a quarter of a second later.
type Stall struct{}

// Name implements Fact.
func (Stall) Name() Name { return NameStall }

// pulse is what a process sees when it gets to run.
type pulse struct {
	at Moment
	// used is how long it has had a processor.
	used time.Duration
}

const (
	// everyPulse is how often a process wants to run, and late how long after its last pulse
	// it has stood still; both on the wall.
	everyPulse = 200 * time.Millisecond
	late       = 500 * time.Millisecond
)

// stalled reports whether a process has stood still between two pulses. One that has had a
// processor for a quarter of the time or more was busy itself.
func stalled(from, to pulse) bool {
	took := time.Duration(to.at - from.at)
	return took >= late && to.used-from.used < took/4
}

// WatchStalls records each stall of the process until ctx ends, and returns nil. What a write
// of its own takes is no stall.
func (r *Recorder) WatchStalls(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	for last := r.pulse(); ctx.Err() == nil; last = r.pulse() {
		_ = clock.Clock{}.Sleep(ctx, everyPulse) // its error is that ctx has ended
		if stalled(last, r.pulse()) {
			r.Done(last.at, "", Stall{})
		}
	}
	return nil
}

func (r *Recorder) pulse() pulse {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails for other arguments only
	return pulse{r.Began(), time.Duration(used.Utime.Nano() + used.Stime.Nano())}
}
