package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	"github.com/podfall/podfall/internal/task"
)

// taskScheduler runs the tasks of one incarnation of a process on coroutines, one at a time. A
// task runs until it waits. Of the tasks that can go on, the one that began to wait first
// goes first, so that one seed is one order. It implements [task.Scheduler].
type taskScheduler struct {
	// ctx is that of all tasks, and ends with the process.
	ctx     context.Context //nolint:containedctx // the scheduler is the context's lifetime
	cancel  context.CancelFunc
	waiting []*coroutine // in the order in which they began to wait
	idle    []*coroutine // their tasks have returned
	current *coroutine   // nil while no task runs
	// returned counts tasks that have.
	returned int
	over     bool
}

var _ task.Scheduler = (*taskScheduler)(nil)

// coroutine runs one task after the other.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	run func() // its task; nil for none
	// ctx and until are what the task waits for; nil before it has begun.
	ctx   context.Context //nolint:containedctx // the argument of Wait, while that is called
	until []<-chan struct{}
	err   error
}

// errUnwound is the panic that ends a task whose process has crashed.
var errUnwound = errors.New("the process has crashed")

func newTaskScheduler() *taskScheduler {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // a process is started by no caller that has one
	return &taskScheduler{ctx: ctx, cancel: cancel}
}

// Group implements [task.Scheduler].
func (s *taskScheduler) Group() task.Group {
	return &taskGroup{scheduler: s, wake: make(chan struct{}, 1)}
}

// Wait implements [task.Scheduler].
func (s *taskScheduler) Wait(ctx context.Context, until ...<-chan struct{}) error {
	c := s.current
	switch {
	case s.over:
		panic(errUnwound)
	case c == nil:
		panic("sim: only a task can wait") // a mistake in the simulator
	}
	c.ctx, c.until = ctx, until
	s.waiting = append(s.waiting, c)
	if !c.yield(struct{}{}) {
		panic(errUnwound)
	}
	return c.err
}

// start has a task begin when its turn comes.
func (s *taskScheduler) start(run func()) {
	if s.over {
		return
	}
	c := s.take()
	c.run, c.ctx, c.until = run, nil, nil
	s.waiting = append(s.waiting, c)
}

// take returns a coroutine without a task.
func (s *taskScheduler) take() *coroutine {
	if last := len(s.idle) - 1; last >= 0 {
		c := s.idle[last]
		s.idle = s.idle[:last]
		return c
	}
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer recoverUnwound()
		for {
			c.run()
			c.run = nil
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// recoverUnwound ends a task that was unwound. Other panics go on with their stack.
func recoverUnwound() {
	if p := recover(); p != nil && p != any(errUnwound) {
		panic(fmt.Sprintf("%v\n%s", p, debug.Stack()))
	}
}

// proceed runs tasks until all of them wait for something that has not happened.
func (s *taskScheduler) proceed() {
	for {
		first := slices.IndexFunc(s.waiting, (*coroutine).ready)
		if first < 0 {
			return
		}
		c := s.waiting[first]
		s.waiting = slices.Delete(s.waiting, first, first+1)
		s.current = c
		c.next()
		s.current = nil
		if c.run == nil {
			s.returned++
			s.idle = append(s.idle, c)
		}
	}
}

// ready reports whether the task can go on, and consumes what it has waited for.
func (c *coroutine) ready() bool {
	if c.ctx == nil {
		return true
	}
	for _, until := range c.until {
		select {
		case <-until:
			c.err = nil
			return true
		default:
		}
	}
	c.err = c.ctx.Err()
	return c.err != nil
}

// end ends all tasks where they are, and runs what they have deferred.
func (s *taskScheduler) end() {
	s.over = true
	s.cancel()
	for _, c := range slices.Concat(s.waiting, s.idle) {
		s.current = c
		c.stop()
	}
	s.waiting, s.idle, s.current = nil, nil, nil
}

// taskGroup implements [task.Group].
type taskGroup struct {
	scheduler *taskScheduler
	open      int
	wake      chan struct{}
}

// Go implements [task.Group].
func (g *taskGroup) Go(run func()) {
	g.open++
	g.scheduler.start(func() {
		defer g.leave()
		run()
	})
}

func (g *taskGroup) leave() {
	g.open--
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Wait implements [task.Group]. After a crash nobody is waited for.
func (g *taskGroup) Wait() {
	for g.open > 0 && !g.scheduler.over {
		_ = g.scheduler.Wait(g.scheduler.ctx, g.wake) // it ends with the process, after which nobody waits
	}
}
