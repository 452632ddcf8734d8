package runtimeapi

import (
	"context"
	"slices"
	"sync"

	"github.com/podfall/podfall/internal/clock"
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
	open map[callKey]*openCall
	// current is the incarnation of each caller whose calls are made.
	current map[string]incarnation
	// early are cancellations that overtook their calls, oldest first.
	early []callKey
}

// openCall is a call that is being made.
type openCall struct {
	end  context.CancelFunc
	over chan struct{} // closed when it has returned
	// stuck: it was told to end, and has not for long enough.
	stuck bool
}

// incarnation is a caller since its start.
type incarnation struct {
	boot proto.Boot
	// present says whether the connection of its latest call is still there.
	present func(context.Context) bool
}

// earlyLimit is how many cancellations without a call are remembered. Most belong to
// calls that had just ended.
const earlyLimit = 256

func newCalls() *calls {
	return &calls{open: map[callKey]*openCall{}, current: map[string]incarnation{}}
}

func keyOf(envelope *proto.RuntimeRequest) callKey {
	return callKey{caller: envelope.Caller, boot: envelope.Boot, call: envelope.Call}
}

// begin opens a call whose caller's connection present knows. Its context ends when the
// call is given up, and when another incarnation of its caller takes over; a call of an
// incarnation that cannot take over is given up from the start. The caller must call the
// returned function when the call has ended.
func (c *calls) begin(
	ctx context.Context, envelope *proto.RuntimeRequest, present func(context.Context) bool,
) (context.Context, func()) {
	key := keyOf(envelope)
	taken := c.take(ctx, key.caller, incarnation{proto.Boot(envelope.Boot), present})
	if taken {
		c.outwait(ctx, key)
	}
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !taken || c.current[key.caller].boot != proto.Boot(key.boot) {
		cancel()
	}
	for i, early := range c.early {
		if early == key {
			c.early = slices.Delete(c.early, i, i+1)
			cancel()
			break
		}
	}
	call := &openCall{end: cancel, over: make(chan struct{})}
	c.open[key] = call
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		close(call.over)
		if c.open[key] == call {
			delete(c.open, key)
		}
	}
}

// outwait returns when the calls of the caller's other incarnations have: what they still do is
// done before this one is told anything. Those that do not end for a second are left alone.
func (c *calls) outwait(ctx context.Context, key callKey) {
	var others []*openCall
	c.mu.Lock()
	for other, call := range c.open {
		if other.caller == key.caller && other.boot != key.boot && !call.stuck {
			others = append(others, call)
		}
	}
	c.mu.Unlock()
	if len(others) == 0 {
		return
	}
	limit := clock.Clock{}.Timer(farewell)
	defer limit.Stop()
	for _, call := range others {
		select {
		case <-call.over:
			continue
		case <-limit.C:
		case <-ctx.Done():
		}
		break
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range others {
		call.stuck = true
	}
}

// take makes the caller's incarnation the current one and ends the calls of the others.
// A newer one takes over at once. One that looks older does so only when the current one
// has left the bus: boots come from a clock that can be set back between two starts, and
// only then is the one that is there the one that began later.
func (c *calls) take(ctx context.Context, caller string, next incarnation) bool {
	var left proto.Boot // the boot that is known to have left the bus
	for {
		c.mu.Lock()
		current := c.current[caller]
		if !next.boot.OlderThan(current.boot) || current.boot == left {
			c.current[caller] = next
			if next.boot != current.boot {
				c.endOthers(caller, next.boot)
			}
			c.mu.Unlock()
			return true
		}
		c.mu.Unlock()
		if current.present(ctx) {
			return false
		}
		left = current.boot
	}
}

// endOthers ends the open calls of the caller's other incarnations. It is called under
// the lock.
func (c *calls) endOthers(caller string, boot proto.Boot) {
	for other, call := range c.open {
		if other.caller == caller && proto.Boot(other.boot) != boot {
			call.end()
		}
	}
}

// giveUp ends the call that the envelope names.
func (c *calls) giveUp(envelope *proto.RuntimeRequest) {
	key := keyOf(envelope)
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, ok := c.open[key]; ok {
		call.end()
		return
	}
	if len(c.early) == earlyLimit {
		c.early = c.early[1:]
	}
	c.early = append(c.early, key)
}
