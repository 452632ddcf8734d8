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
	at MonoTime
	// used is the processor time of the process.
	used time.Duration
}

const (
	// pulseInterval is how often a process measures. A process that measures again only after
	// stallThreshold has stood still. Both are wall time.
	pulseInterval  = 200 * time.Millisecond
	stallThreshold = 500 * time.Millisecond
)

// isStall reports whether a process stood still between two pulses. A process that used a processor
// for a quarter of the time or more was busy, not stalled.
func isStall(from, to pulse) bool {
	took := time.Duration(to.at - from.at)
	return took >= stallThreshold && to.used-from.used < took/4
}

// WatchStalls records each stall of the process until ctx ends, and returns nil. The duration of
// its own writes does not count.
func (r *Recorder) WatchStalls(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	for last := r.readPulse(); ctx.Err() == nil; last = r.readPulse() {
		_ = clock.Clock{}.Sleep(ctx, pulseInterval) // fails only if ctx has ended
		if isStall(last, r.readPulse()) {
			r.RecordSince(last.at, "", Stall{})
		}
	}
	return nil
}

func (r *Recorder) readPulse() pulse {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for other arguments only
	return pulse{r.Now(), time.Duration(used.Utime.Nano() + used.Stime.Nano())}
}
