package apiserver

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto"
)

// fence keeps out the messages of processes that have been replaced (guarantee N6). Of an
// identity that one process has at a time, the newest boot ever seen is the one that
// counts. It begins anew with the apiserver: by then nothing older is under way.
type fence struct {
	mu     sync.Mutex
	newest map[proto.Identity]proto.Boot
}

func newFence() fence { return fence{newest: make(map[proto.Identity]proto.Boot)} }

func (f *fence) admit(id proto.Identity, boot proto.Boot) error {
	if _, node := id.NodeName(); !node && id != proto.Controllers {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := f.newest[id]
	if boot.OlderThan(newest) {
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf(
			"envelope: boot: %s has begun again as %q, so its boot %q is over", id, newest, boot))
	}
	f.newest[id] = boot
	return nil
}

// turns lets requests that name the same operation go one after the other, so that the
// second finds in the store what the first has done.
type turns struct {
	mu    sync.Mutex
	taken map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token while nobody has the turn
	waiting int
}

// take waits for the turn of an operation; done gives it to the next.
func (t *turns) take(ctx context.Context, operation string) (done func(), err error) {
	t.mu.Lock()
	own := t.taken[operation]
	if own == nil {
		own = &turn{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		t.taken[operation] = own
	}
	own.waiting++
	t.mu.Unlock()

	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.waiting--; own.waiting == 0 {
			delete(t.taken, operation)
		}
	}
	select {
	case <-own.free:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	return func() {
		own.free <- struct{}{}
		leave()
	}, nil
}
