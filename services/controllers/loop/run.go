package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Run processes keys until ctx ends. It returns ctx's error.
func (l *Loop[K]) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	for range l.cfg.Workers {
		workers.Go(func() { l.runWorker(ctx) })
	}
	var hand []K // the key that no worker has taken yet, if there is one
	for {
		if len(hand) == 0 {
			hand = l.nextKey()
		}
		var out chan K
		var key K
		if len(hand) > 0 {
			out, key = l.work, hand[0]
		}
		timer := l.cfg.Clock.Timer(l.untilDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-l.wake:
		case <-timer.C:
		case out <- key:
			hand = nil
		}
		timer.Stop()
	}
}

// nextKey takes the oldest waiting key, if there is one. The key is dirty until a worker has it.
func (l *Loop[K]) nextKey() []K {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enqueueDue()
	if len(l.waiting) == 0 {
		return nil
	}
	key := l.waiting[0]
	l.waiting = l.waiting[1:]
	return []K{key}
}

// untilDue returns the time until another key becomes due.
func (l *Loop[K]) untilDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enqueueDue()
	return l.later.untilNext(l.cfg.Clock.Steady())
}

// enqueueDue queues the delayed keys that are due.
func (l *Loop[K]) enqueueDue() {
	for _, key := range l.later.popDue(l.cfg.Clock.Steady()) {
		l.enqueue(key)
	}
}

// runWorker processes keys until ctx ends.
func (l *Loop[K]) runWorker(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-l.work:
			l.start(key)
			l.process(ctx, key)
			l.finish(key)
		}
	}
}

func (l *Loop[K]) start(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Clock{}.Now()
	l.counts.waited.Observe(now.Sub(l.dirty[key]), l.counts.name)
	delete(l.dirty, key)
	l.busy[key] = now
}

// process calls sync for one key, and retries it if that fails.
func (l *Loop[K]) process(ctx context.Context, key K) {
	err := l.sync(ctx, key)
	switch {
	case err == nil:
		l.Forget(key)
	case ctx.Err() != nil:
	case l.cfg.Retries > 0 && l.failureCount(key) >= l.cfg.Retries:
		l.cfg.Log.WarnContext(ctx, "given up until it changes", "key", key, "error", err)
		l.Forget(key)
	default:
		l.cfg.Log.InfoContext(ctx, "to be tried again", "key", key, "error", err)
		l.Retry(key)
	}
}

func (l *Loop[K]) failureCount(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[key]
}

// finish ends the processing of a key, and queues it again if it was added meanwhile.
func (l *Loop[K]) finish(key K) {
	l.mu.Lock()
	l.counts.worked.Observe(clock.Clock{}.Since(l.busy[key]), l.counts.name)
	delete(l.busy, key)
	if _, again := l.dirty[key]; again {
		l.waiting = append(l.waiting, key)
	}
	l.mu.Unlock()
	l.wakeRun()
}

// schedule holds the keys that are due later. A key is in it once, at its earliest time.
type schedule[K comparable] struct {
	due   map[K]time.Time
	queue []scheduledKey[K] // by time; of equal ones the first that came
}

type scheduledKey[K comparable] struct {
	key K
	at  time.Time
}

func (s *schedule[K]) add(key K, at time.Time) {
	if known, there := s.due[key]; there && !at.Before(known) {
		return
	}
	s.due[key] = at
	i, _ := slices.BinarySearchFunc(s.queue, at, func(d scheduledKey[K], at time.Time) int {
		if d.at.After(at) {
			return 1
		}
		return -1
	})
	s.queue = slices.Insert(s.queue, i, scheduledKey[K]{key, at})
}

// popDue removes and returns the keys that are due, in order of time.
func (s *schedule[K]) popDue(now time.Time) []K {
	var keys []K
	for len(s.queue) > 0 && !s.queue[0].at.After(now) {
		first := s.queue[0]
		s.queue = s.queue[1:]
		if known, there := s.due[first.key]; there && known.Equal(first.at) {
			delete(s.due, first.key)
			keys = append(keys, first.key)
		}
	}
	return keys
}

// untilNext returns the time until the first key is due.
func (s *schedule[K]) untilNext(now time.Time) time.Duration {
	if len(s.queue) == 0 {
		return time.Hour
	}
	return s.queue[0].at.Sub(now)
}
