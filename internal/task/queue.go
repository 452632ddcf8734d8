package task

import (
	"context"
	"sync"
)

// Queue holds items in the order in which they were put. It is safe for concurrent use.
type Queue[T any] struct {
	scheduler Scheduler
	wake      chan struct{} // holds a token while there may be items

	mu    sync.Mutex
	items []T
}

// NewQueue returns an empty queue. Take waits through the scheduler.
func NewQueue[T any](scheduler Scheduler) *Queue[T] {
	return &Queue[T]{scheduler: scheduler, wake: make(chan struct{}, 1)}
}

// Put appends an item. It never blocks.
func (q *Queue[T]) Put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	q.signal()
}

// Take removes the first item, and waits for one if the queue is empty. It returns the
// context's error if ctx ends first.
func (q *Queue[T]) Take(ctx context.Context) (T, error) {
	for {
		if item, ok := q.first(); ok {
			return item, nil
		}
		if err := q.scheduler.Wait(ctx, q.wake); err != nil {
			var none T
			return none, err
		}
	}
}

// first removes the first item, if there is one. It wakes the next taker if more are left.
func (q *Queue[T]) first() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return item, false
	}
	item = q.items[0]
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.signal()
	}
	return item, true
}

// signal leaves a token for a taker. The caller holds the lock.
func (q *Queue[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
