package apiserver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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
	mu    sync.Mutex
	taken map[string]*turn
	// answered is by operation, and order has its keys from the oldest on.
	answered map[string]answered
	order    []string
	size     int // of all answers, in bytes
}

type turn struct {
	free    chan struct{} // holds one token while nobody has the turn
	waiting int
}

// answered is a request that succeeded.
type answered struct {
	asked [sha256.Size]byte
	parts []*proto.Response
	size  int
}

// The bounds of what turns remember.
const (
	maxAnswered      = 10_000
	maxAnsweredBytes = 16 << 20
)

func newTurns() turns { return turns{taken: map[string]*turn{}, answered: map[string]answered{}} }

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

// once carries out a request by do, unless the same has succeeded before: then it gets the
// same answer. Another request of the same operation is refused. The caller has the turn.
func (t *turns) once(
	ctx context.Context, operation string, req request, send verbs.Send, do func(verbs.Send) error,
) error {
	own := answered{asked: req.digest()}
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

// digest tells requests apart by all that decides what they do. The deadline and the boot
// may be another's: a process that begins again may finish what it was about.
func (r request) digest() [sha256.Size]byte {
	e := r.envelope
	sum := sha256.New()
	for _, part := range [][]byte{
		[]byte(r.subject), []byte(e.GetApiVersion()), []byte(e.GetContentType()),
		e.GetOptions(), e.GetListOptions(), e.GetBody(),
	} {
		sum.Write(binary.AppendUvarint(nil, uint64(len(part))))
		sum.Write(part)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
