package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/podfall/podfall/internal/task"
)

// TestTasksRunInOrder checks that tasks go on in the order in which they began to wait.
func TestTasksRunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTaskScheduler()
		defer s.end()
		group, queue := s.Group(), task.NewQueue[int](s)
		var got []int
		for i := range 3 {
			group.Go(func() {
				item, err := queue.Take(t.Context())
				if err != nil {
					t.Error(err)
				}
				got = append(got, 10*i+item)
			})
		}
		s.proceed()
		for item := range 3 {
			queue.Put(item)
		}
		s.proceed()
		if want := []int{0, 11, 22}; !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}

// TestCancelledTaskGoesOn checks that the end of a context is seen after the step that ends it.
func TestCancelledTaskGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTaskScheduler()
		defer s.end()
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		s.Group().Go(func() { err = s.Wait(ctx, make(chan struct{})) })
		s.proceed()
		cancel()
		s.proceed()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want %v", err, context.Canceled)
		}
	})
}

// TestCrashUnwindsTasks checks that a crash ends waiting tasks and those they wait for, runs
// what they have deferred, and nothing else. A task that is left would fail the bubble.
func TestCrashUnwindsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTaskScheduler()
		var got []string
		s.Group().Go(func() {
			defer func() { got = append(got, "outer ended") }()
			inner := s.Group()
			defer inner.Wait()
			inner.Go(func() {
				defer func() { got = append(got, "inner ended") }()
				_ = s.Wait(t.Context(), make(chan struct{}))
				got = append(got, "inner went on")
			})
			_ = s.Wait(t.Context(), make(chan struct{}))
			got = append(got, "outer went on")
		})
		s.Group().Go(func() {}) // its coroutine is idle by then
		s.proceed()
		s.end()
		if want := []string{"outer ended", "inner ended"}; !slices.Equal(got, want) {
			t.Errorf("it was %v, want %v", got, want)
		}
	})
}
