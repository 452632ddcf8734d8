package history

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBeat records nothing as long as a process runs, and nothing behind its end.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := open(t, Config{Dir: dir, Process: "p"})
		ctx, cancel := context.WithCancel(t.Context())
		var beating sync.WaitGroup
		for _, recorder := range []*Recorder{r, nil} {
			beating.Go(func() {
				if err := recorder.Beat(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Hour)
		cancel()
		beating.Wait()
		if log := read(t, dir); len(log.Events) != 0 {
			t.Errorf("%+v", log.Events)
		}
	})
}
