package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/podfall/podfall/internal/task"
)

func TestQueueKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := task.NewQueue[int](task.Goroutines{})
		group := task.Goroutines{}.Group()
		defer group.Wait()
		group.Go(func() {
			for i := range 100 {
				q.Put(i)
			}
		})
		for want := range 100 {
			if got, err := q.Take(t.Context()); err != nil || got != want {
				t.Fatalf("Take = %d, %v; want %d", got, err, want)
			}
		}
	})
}

// Two items that are put before anybody takes wake two takers.
func TestQueueWakesEveryTaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := task.NewQueue[int](task.Goroutines{})
		takers := task.Goroutines{}.Group()
		for range 2 {
			takers.Go(func() {
				if _, err := q.Take(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		q.Put(1)
		q.Put(2)
		takers.Wait() // a lost wake-up is a deadlock of the bubble
	})
}

func TestTakeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := task.NewQueue[int](task.Goroutines{}).Take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Take = %v, want %v", err, context.Canceled)
	}
}
