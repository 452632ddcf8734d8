package podfalltest

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadyNodesAreAwaited: awaitNodes waits for a node that is not Ready because its runtime is
// down.
func TestReadyNodesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, InBubble(), Nodes(2))
		c.Crash("runtime/node-2")
		time.Sleep(2 * time.Minute)
		var restarting sync.WaitGroup
		defer restarting.Wait()
		restarting.Go(func() {
			time.Sleep(time.Minute)
			if err := c.startOne("runtime/node-2"); err != nil {
				t.Error(err)
			}
		})
		begin := time.Now()
		if err := c.awaitNodes(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < time.Minute {
			t.Errorf("a node without a runtime was Ready after %v", took)
		}
	})
}
