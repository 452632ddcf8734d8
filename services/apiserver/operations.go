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

// turns lets requests that name the same operation go one after the other, and remembers
// what the last operations were answered. An operation that comes again, because its
// answer was lost, is answered the same: also when it changed nothing, of which the
// store's history knows nothing (guarantees N1 and D9). Refused ones are not remembered:
// they have had no effect.
//
// The memory ends with the process, and is bounded. What is older is known from history
// alone.
type turns struct {
	seed maphash.Seed // of digests

	mu sync.Mutex
	// taken are the operations of which one request has the turn, each with those that wait
	// for theirs. Each is told by the end of its channel.
	taken map[string][]chan struct{}
	// answered is by operation, and order has its keys from the oldest on.
	answered map[string]answered
	order    []string
	size     int // of all answers, in bytes
}

// answered is a request that succeeded.
type answered struct {
	asked digest
	parts []*proto.Response
	size  int
}

// The bounds of what turns remember.
const (
	maxAnswered      = 10_000
	maxAnsweredBytes = 16 << 20
)

func newTurns() turns {
	return turns{seed: maphash.MakeSeed(), taken: map[string][]chan struct{}{}, answered: map[string]answered{}}
}

// take waits for the turn of an operation. Whoever has it passes it on.
func (t *turns) take(ctx context.Context, operation string) error {
	t.mu.Lock()
	waiting, taken := t.taken[operation]
	if !taken {
		t.taken[operation] = nil
		t.mu.Unlock()
		return nil
	}
	own := make(chan struct{})
	t.taken[operation] = append(waiting, own)
	t.mu.Unlock()
	select {
	case <-own:
		return nil
	case <-ctx.Done():
		t.leave(operation, own)
		return context.Cause(ctx)
	}
}

// pass gives the turn to the next.
func (t *turns) pass(operation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := t.taken[operation]
	if len(waiting) == 0 {
		delete(t.taken, operation)
		return
	}
	t.taken[operation] = waiting[1:]
	close(waiting[0])
}

// leave is of one that waits no longer: it passes on a turn that it was given meanwhile.
func (t *turns) leave(operation string, own chan struct{}) {
	t.mu.Lock()
	waiting := t.taken[operation]
	place := slices.Index(waiting, own)
	if place >= 0 {
		t.taken[operation] = slices.Delete(waiting, place, place+1)
	}
	t.mu.Unlock()
	if place < 0 {
		t.pass(operation)
	}
}

// once carries out a request by do, unless the same has succeeded before: then it gets the
// same answer. Another request of the same operation is refused. The caller has the turn.
func (t *turns) once(
	ctx context.Context, operation string, req request, send verbs.Send, do func(verbs.Send) error,
) error {
	own := answered{asked: req.digest(t.seed)}
	t.mu.Lock()
	before, again := t.answered[operation]
	t.mu.Unlock()
	if again && before.asked != own.asked {
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

func (t *turns) remember(operation string, own answered) {
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

// request is what was asked for, and where.
type request struct {
	subject  string
	envelope *proto.Request
}

// digest tells requests of one operation apart by all that decides what they do: 64 bits of
// each part, which are the same by chance for one in 2^64 that differ there.
type digest [6]uint64

// digest leaves out the deadline and the boot, which may be another's: a process that begins
// again may finish what it was about.
func (r request) digest(seed maphash.Seed) digest {
	e := r.envelope
	return digest{
		maphash.String(seed, r.subject), maphash.String(seed, e.GetApiVersion()), maphash.String(seed, e.GetContentType()),
		maphash.Bytes(seed, e.GetOptions()), maphash.Bytes(seed, e.GetListOptions()), maphash.Bytes(seed, e.GetBody()),
	}
}
