package runtimeapi

import (
	"context"
	"slices"
	"sync"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// callKey identifies an open call.
type callKey struct {
	caller, boot, call string
}

// calls are the open calls of a server, so that abandoned calls can be cancelled.
type calls struct {
	mu   sync.Mutex
	open map[callKey]*openCall
	// current is the current incarnation of each caller.
	current map[string]incarnation
	// early are cancellations that arrived before their calls, oldest first.
	early []callKey
}

// openCall is a call in progress.
type openCall struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the call has returned
	// stuck is set if the call was cancelled and has not returned in time.
	stuck bool
}

// incarnation is one run of a caller.
type incarnation struct {
	boot proto.Boot
	// isPresent reports whether the connection of the latest call still exists.
	isPresent func(context.Context) bool
}

// maxEarlyCancels is how many cancellations without a call are kept. Most belong to calls that had
// just ended.
const maxEarlyCancels = 256

func newCalls() *calls {
	return &calls{open: map[callKey]*openCall{}, current: map[string]incarnation{}}
}

func callKeyOf(envelope *proto.RuntimeRequest) callKey {
	return callKey{caller: envelope.Caller, boot: envelope.Boot, call: envelope.Call}
}

// start opens a call. The returned context ends when the call is cancelled, or when another
// incarnation of the caller takes over. If the call's own incarnation cannot take over, the context
// has ended already. The caller must call the returned function when the call has ended. The
// function present reports whether the caller's connection exists.
func (c *calls) start(
	ctx context.Context, envelope *proto.RuntimeRequest, present func(context.Context) bool,
) (context.Context, func()) {
	key := callKeyOf(envelope)
	taken := c.takeOver(ctx, key.caller, incarnation{proto.Boot(envelope.Boot), present})
	if taken {
		c.waitForOlder(ctx, key)
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
	call := &openCall{cancel: cancel, done: make(chan struct{})}
	c.open[key] = call
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		close(call.done)
		if c.open[key] == call {
			delete(c.open, key)
		}
	}
}

// waitForOlder waits until the calls of the caller's other incarnations have returned, so that
// their effects precede this call's. Calls that do not return within a second are skipped.
func (c *calls) waitForOlder(ctx context.Context, key callKey) {
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
	limit := clock.Clock{}.Timer(answerTimeout)
	defer limit.Stop()
	for _, call := range others {
		select {
		case <-call.done:
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

// takeOver makes next the current incarnation and cancels the calls of the others. A newer
// incarnation takes over at once. One that looks older takes over only if the current one has left
// the bus: boots come from a clock that may be set back between two starts. Then the incarnation
// that is connected is the one that started later.
func (c *calls) takeOver(ctx context.Context, caller string, next incarnation) bool {
	var left proto.Boot // the boot that is known to have left the bus
	for {
		c.mu.Lock()
		current := c.current[caller]
		if !next.boot.OlderThan(current.boot) || current.boot == left {
			c.current[caller] = next
			if next.boot != current.boot {
				c.cancelOthers(caller, next.boot)
			}
			c.mu.Unlock()
			return true
		}
		c.mu.Unlock()
		if current.isPresent(ctx) {
			return false
		}
		left = current.boot
	}
}

// cancelOthers cancels the open calls of the caller's other incarnations. Callers hold the lock.
func (c *calls) cancelOthers(caller string, boot proto.Boot) {
	for other, call := range c.open {
		if other.caller == caller && proto.Boot(other.boot) != boot {
			call.cancel()
		}
	}
}

// cancel cancels the call that the envelope names.
func (c *calls) cancel(envelope *proto.RuntimeRequest) {
	key := callKeyOf(envelope)
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, ok := c.open[key]; ok {
		call.cancel()
		return
	}
	if len(c.early) == maxEarlyCancels {
		c.early = c.early[1:]
	}
	c.early = append(c.early, key)
}
