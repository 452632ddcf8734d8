// Package task starts concurrent work and waits for it. A shell is code that drives a pure
// core and does its I/O. A shell that uses these few primitives runs under two schedulers:
// [Goroutines] in production, and that of e2e/sim, which runs one task at a time in an order
// that a seed decides.
//
//	Scheduler  starts tasks, and pauses a task until something has happened
//	Group      is tasks with an owner that waits for them
//	Queue      hands items from tasks to the task that takes them
//	Clock      tells the time and sleeps; clock.Clock is one
//
// # Blocking
//
// Only Scheduler.Wait, Group.Wait, Queue.Take and Clock.Sleep block. Code that has to run
// under both schedulers blocks nowhere else: it has no go statement, no select and no bare
// channel receive, and holds no lock while it calls one of these.
package task

import (
	"context"
	"sync"
	"time"
)

// Scheduler starts tasks and pauses them. Its methods may be called by any task.
type Scheduler interface {
	// Group returns an empty group.
	Group() Group
	// Wait returns nil when a value can be received from one of the channels, at most
	// [MostChannels], or one is closed. It consumes the value. It returns the context's
	// error if ctx ends first.
	Wait(ctx context.Context, until ...<-chan struct{}) error
}

// MostChannels is the largest number of channels that a task can wait for at once.
const MostChannels = 3

// Group is tasks with one owner. *sync.WaitGroup is one.
type Group interface {
	// Go starts a task and returns at once.
	Go(run func())
	// Wait returns when all tasks of the group have returned.
	Wait()
}

// Clock tells the time and sleeps. clock.Clock says what each method means.
type Clock interface {
	Now() time.Time
	Steady() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// Goroutines is the production scheduler: each task is a goroutine.
type Goroutines struct{}

// Group implements [Scheduler].
func (Goroutines) Group() Group { return new(sync.WaitGroup) }

// Wait implements [Scheduler].
func (Goroutines) Wait(ctx context.Context, until ...<-chan struct{}) error {
	var all [MostChannels]<-chan struct{} // nothing is ever received from those that stay nil
	if copy(all[:], until) < len(until) {
		panic("task: a wait for too many channels")
	}
	select {
	case <-all[0]:
		return nil
	case <-all[1]:
		return nil
	case <-all[2]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OrGoroutines returns the scheduler, or [Goroutines] if it is nil.
func OrGoroutines(s Scheduler) Scheduler {
	if s == nil {
		return Goroutines{}
	}
	return s
}
