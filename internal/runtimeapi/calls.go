package runtimeapi

import (
	"context"
	"slices"
	"sync"

	"github.com/podfall/podfall/proto"
)

// callKey names an open call.
type callKey struct {
	caller, boot, call string
}

// calls are the calls that a server has open, so that they can be ended when nobody
// waits for them any more.
type calls struct {
	mu   sync.Mutex
	open map[callKey]context.CancelFunc
	// newest is the newest boot that each caller has shown.
	newest map[string]proto.Boot
	// early are cancellations that overtook their calls, oldest first.
	early []callKey
}

// earlyLimit is how many cancellations without a call are remembered. Most belong to
// calls that had just ended.
const earlyLimit = 256

func newCalls() *calls {
	return &calls{open: map[callKey]context.CancelFunc{}, newest: map[string]proto.Boot{}}
}

func keyOf(envelope *proto.RuntimeRequest) callKey {
	return callKey{caller: envelope.Caller, boot: envelope.Boot, call: envelope.Call}
}

// begin opens a call. Its context ends when the call is given up, and when a newer
// incarnation of its caller begins one; a call of an older incarnation is given up
// from the start. The caller must call the returned function when the call has ended.
func (c *calls) begin(ctx context.Context, envelope *proto.RuntimeRequest) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	key, boot := keyOf(envelope), proto.Boot(envelope.Boot)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch newest := c.newest[key.caller]; {
	case newest.OlderThan(boot):
		c.newest[key.caller] = boot
		for other, end := range c.open {
			if other.caller == key.caller && proto.Boot(other.boot).OlderThan(boot) {
				end()
			}
		}
	case boot.OlderThan(newest):
		cancel()
	}
	for i, early := range c.early {
		if early == key {
			c.early = slices.Delete(c.early, i, i+1)
			cancel()
			break
		}
	}
	c.open[key] = cancel
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, key)
	}
}

// giveUp ends the call that the envelope names.
func (c *calls) giveUp(envelope *proto.RuntimeRequest) {
	key := keyOf(envelope)
	c.mu.Lock()
	defer c.mu.Unlock()
	if end, ok := c.open[key]; ok {
		end()
		return
	}
	if len(c.early) == earlyLimit {
		c.early = c.early[1:]
	}
	c.early = append(c.early, key)
}
