package history

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStalled is about a process that does not run for half a second and used no processor
// meanwhile. e2e/procs shows that a real process records it.
func TestStalled(t *testing.T) {
	for _, c := range []struct {
		took, used time.Duration
		want       bool
	}{
		{200 * time.Millisecond, 0, false},
		{499 * time.Millisecond, 0, false},
		{500 * time.Millisecond, 0, true},
		{500 * time.Millisecond, 124 * time.Millisecond, true},
		{500 * time.Millisecond, 125 * time.Millisecond, false},
		{time.Minute, time.Second, true},
		{time.Minute, 2 * time.Minute, false},
	} {
		from := pulse{at: 7, used: time.Hour}
		if got := isStall(from, pulse{from.at + MonoTime(c.took), from.used + c.used}); got != c.want {
			t.Errorf("%v with a processor for %v: %v, want %v", c.took, c.used, got, c.want)
		}
	}
}

// TestNoStall records no stall of a process that runs regularly, and none with a nil recorder.
func TestNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := mustOpen(t, Config{Dir: dir, Process: "p"})
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		for _, recorder := range []*Recorder{r, nil} {
			watching.Go(func() {
				if err := recorder.WatchStalls(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Hour)
		cancel()
		watching.Wait()
		if log := mustRead(t, dir); len(log.Events) != 0 {
			t.Errorf("%+v", log.Events)
		}
	})
}
