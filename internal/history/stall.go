package history

import (
	"context"
	"syscall"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Stall is a time in which a process did not run: it was paused, or the machine had no processor
// for it. The stall is over when the event ends. It began when the event began, or less than a
// quarter of a second later.
type Stall struct{}

// Name implements Fact.
func (Stall) Name() Name { return NameStall }

// pulse is what a process measures when it gets to run.
type pulse struct {
	at Moment
	// used is the processor time of the process.
	used time.Duration
}

const (
	// pulseInterval is how often a process measures. A process that measures again only after
	// stallThreshold has stood still. Both are wall time.
	everyPulse = 200 * time.Millisecond
	late       = 500 * time.Millisecond
)

// isStall reports whether a process stood still between two pulses. A process that used a processor
// for a quarter of the time or more was busy, not stalled.
func stalled(from, to pulse) bool {
	took := time.Duration(to.at - from.at)
	return took >= late && to.used-from.used < took/4
}

// WatchStalls records each stall of the process until ctx ends, and returns nil. The duration of
// its own writes does not count.
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
