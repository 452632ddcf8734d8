package apiserver

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	protobuf "google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// operations serializes requests that name the same operation, and remembers the answers of recent
// operations. A client repeats an operation if its answer was lost, and gets the same answer again:
// also for an operation that changed nothing and therefore is not in the store's history
// (guarantees N1 and D9). Refused operations are not remembered, because they have had no effect.
//
// The memory is bounded and ends with the process. Older operations are found in the store's
// history only.
type operations struct {
	seed maphash.Seed // of digests

	mu sync.Mutex
	// running has the operations of which one request is running, each with the channels of those
	// that wait. Closing a channel lets its request run.
	running map[string][]chan struct{}
	// answered is keyed by operation; order has its keys, the oldest first.
	answered map[string]answer
	order    []string
	size     int // of all answers, in bytes
}

// answer is what a request that succeeded was answered.
type answer struct {
	request digest
	parts   []*proto.Response
	size    int
}

// The limits of the remembered answers.
const (
	maxAnswered      = 10_000
	maxAnsweredBytes = 16 << 20
)

func newOperations() operations {
	return operations{seed: maphash.MakeSeed(), running: map[string][]chan struct{}{}, answered: map[string]answer{}}
}

// acquire waits until no other request of the operation runs. Call release afterwards.
func (t *operations) acquire(ctx context.Context, operation string) error {
	t.mu.Lock()
	waiting, taken := t.running[operation]
	if !taken {
		t.running[operation] = nil
		t.mu.Unlock()
		return nil
	}
	own := make(chan struct{})
	t.running[operation] = append(waiting, own)
	t.mu.Unlock()
	select {
	case <-own:
		return nil
	case <-ctx.Done():
		t.abandon(operation, own)
		return context.Cause(ctx)
	}
}

// release lets the next waiting request of the operation run.
func (t *operations) release(operation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := t.running[operation]
	if len(waiting) == 0 {
		delete(t.running, operation)
		return
	}
	t.running[operation] = waiting[1:]
	close(waiting[0])
}

// abandon removes a waiting request that has given up. If it was let run meanwhile, the next one
// runs instead.
func (t *operations) abandon(operation string, own chan struct{}) {
	t.mu.Lock()
	waiting := t.running[operation]
	place := slices.Index(waiting, own)
	if place >= 0 {
		t.running[operation] = slices.Delete(waiting, place, place+1)
	}
	t.mu.Unlock()
	if place < 0 {
		t.release(operation)
	}
}

// doOnce runs do, unless the same request has succeeded before; then it sends the same answer
// again. Another request with the same operation is refused. The caller has acquired the operation.
func (t *operations) doOnce(
	ctx context.Context, operation string, req request, send verbs.Send, do func(verbs.Send) error,
) error {
	own := answer{request: req.digest(t.seed)}
	t.mu.Lock()
	before, again := t.answered[operation]
	t.mu.Unlock()
	if again && before.request != own.request {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"operation: %q has been another request's; want a new one for each request", req.envelope.GetOperation()))
	}
	if again {
		for i, part := range before.parts {
			if err := send(ctx, part, i < len(before.parts)-1); err != nil {
				return err
			}
		}
		return nil
	}
	return do(func(ctx context.Context, part *proto.Response, more bool) error {
		own.parts = append(own.parts, part)
		own.size += protobuf.Size(part)
		if !more { // now, for the answer may get lost on its way
			t.remember(operation, own)
		}
		return send(ctx, part, more)
	})
}

func (t *operations) remember(operation string, own answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered[operation] = own
	t.order = append(t.order, operation)
	t.size += own.size
	for len(t.order) > maxAnswered || t.size > maxAnsweredBytes {
		oldest := t.order[0]
		t.order = t.order[1:]
		t.size -= t.answered[oldest].size
		delete(t.answered, oldest)
	}
}

// request is what a call asked for, and its subject.
type request struct {
	subject  string
	envelope *proto.Request
}

// digest tells requests of one operation apart by everything that decides what they do: 64 bits of
// each part. Two different parts collide with probability 2^-64.
type digest [6]uint64

// digest leaves out the deadline and the boot, which may differ: a restarted process may finish
// what it had begun.
func (r request) digest(seed maphash.Seed) digest {
	e := r.envelope
	return digest{
		maphash.String(seed, r.subject), maphash.String(seed, e.GetApiVersion()), maphash.String(seed, e.GetContentType()),
		maphash.Bytes(seed, e.GetOptions()), maphash.Bytes(seed, e.GetListOptions()), maphash.Bytes(seed, e.GetBody()),
	}
}
