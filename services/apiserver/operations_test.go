package apiserver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// TestTheMemoryIsBounded by the number of operations and by their bytes; what is over is
// the oldest.
func TestTheMemoryIsBounded(t *testing.T) {
	for _, row := range []struct{ answers, size, kept int }{
		{maxAnswered + 10, 0, maxAnswered},
		{10, maxAnsweredBytes / 4, 3},
		{1, maxAnsweredBytes, 0},
	} {
		turns, done := newOperations(), 0
		part := &proto.Response{Item: &proto.Item{Object: make([]byte, row.size)}}
		ask := func(i int) {
			req := request{fmt.Sprint("subject ", i), &proto.Request{}}
			discard := func(context.Context, *proto.Response, bool) error { return nil }
			err := turns.doOnce(t.Context(), fmt.Sprint(i), req, discard, func(send verbs.Send) error {
				done++
				return send(t.Context(), part, false)
			})
			if err != nil {
				t.Error(err)
			}
		}
		for i := range row.answers {
			ask(i)
		}
		if done != row.answers || len(turns.answered) != row.kept || len(turns.order) != row.kept || turns.size > maxAnsweredBytes {
			t.Errorf("%d of %d bytes: carried out %d, remembered %d of %d bytes, want %d",
				row.answers, row.size, done, len(turns.answered), turns.size, row.kept)
		}
		for i := row.answers - row.kept; i < row.answers; i++ {
			ask(i)
		}
		if done != row.answers {
			t.Errorf("%d that are remembered were carried out again", done-row.answers)
		}
	}
}

// TestWaitersOfAnOperationGoInOrder: waiters of one operation go in order, one that has given up
// does not delay those behind it, and in the end nothing is remembered.
func TestWaitersOfAnOperationGoInOrder(t *testing.T) {
	const operation = "a"
	synctest.Test(t, func(t *testing.T) {
		turns := newOperations()
		if err := turns.acquire(t.Context(), operation); err != nil {
			t.Fatal(err)
		}
		gone, hangUp := context.WithCancelCause(t.Context())
		waits := func(ctx context.Context) <-chan error {
			given := make(chan error, 1)
			go func() { given <- turns.acquire(ctx, operation) }()
			synctest.Wait()
			return given
		}
		first, second, third := waits(gone), waits(t.Context()), waits(t.Context())
		over := errors.New("over")
		hangUp(over)
		if err := <-first; !errors.Is(err, over) {
			t.Errorf("one that has given up was told %v", err)
		}
		for _, next := range []<-chan error{second, third} {
			select {
			case err := <-next:
				t.Errorf("two have the turn: %v", err)
			default:
			}
			turns.release(operation)
			synctest.Wait()
			select {
			case err := <-next:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Fatal("the turn was passed to nobody")
			}
		}
		turns.release(operation)
		if len(turns.running) != 0 {
			t.Errorf("nobody wants the turn, and %v have it", turns.running)
		}
	})
}

// TestATurnThatComesTooLateGoesOn: it was given while its taker gave up.
func TestATurnThatComesTooLateGoesOn(t *testing.T) {
	const operation = "a"
	turns := newOperations()
	if err := turns.acquire(t.Context(), operation); err != nil {
		t.Fatal(err)
	}
	late, next := make(chan struct{}), make(chan struct{})
	turns.running[operation] = []chan struct{}{late, next}
	turns.release(operation)
	turns.abandon(operation, late)
	select {
	case <-next:
	default:
		t.Error("the turn stayed with one that had left")
	}
}
