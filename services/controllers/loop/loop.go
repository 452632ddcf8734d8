// Package loop is the work loop of every controller: keys of objects go into a queue, and workers
// take them out and process them. No key is processed twice at the same time. A key that failed is
// retried, later each time, as in upstream's work queues.
//
// # Order
//
// A key that is added while it waits is queued once. A key that is added while a worker processes
// it is processed again afterwards. Keys are taken in the order in which they became due.
//
// # Blocking
//
// Adding never blocks. [Loop.Run] returns after its workers have returned, and leaves no goroutine.
package loop

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// Config configures a loop.
type Config struct {
	// Name is the queue's name in Metrics.
	Name string
	// Metrics counts keys; nil counts nothing.
	Metrics *metrics.Registry
	Clock   clock.Clock
	// Workers is how many keys are processed at the same time; zero means 1.
	Workers int
	// Retries is how often a failing key is retried before it is dropped; 0 means for ever.
	Retries int
	// Log is nil for none.
	Log *slog.Logger
}

// Loop is a queue of keys and its workers.
type Loop[K comparable] struct {
	cfg    Config
	sync   func(context.Context, K) error
	wake   chan struct{}
	work   chan K
	counts queueMetrics

	mu       sync.Mutex
	waiting  []K             // ready for a worker, oldest first
	dirty    map[K]time.Time // since when, on the wall
	busy     map[K]time.Time // since when, on the wall
	later    schedule[K]
	failures map[K]int
	bucket   *rate.Limiter
}

// The rates of upstream's DefaultTypedControllerRateLimiter: a key that fails waits 5 ms,
// twice as long each time, up to 1000 s; and all that fail together come back at 10/s after
// the first 100.
const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = 1000 * time.Second
	perSecond    = 10
	burst        = 100
)

// New returns a loop that calls sync for each key; see Run. If sync returns an error, it is logged
// and the key is retried.
func New[K comparable](cfg Config, sync func(context.Context, K) error) *Loop[K] {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Workers = max(cfg.Workers, 1)
	l := &Loop[K]{
		cfg: cfg, sync: sync, wake: make(chan struct{}, 1), work: make(chan K), counts: newCounts(cfg.Metrics, cfg.Name),
		dirty: map[K]time.Time{}, busy: map[K]time.Time{}, later: schedule[K]{due: map[K]time.Time{}}, failures: map[K]int{},
		bucket: rate.NewLimiter(perSecond, burst),
	}
	cfg.Metrics.OnCollect(l.updateGauges)
	return l
}

// Add queues a key.
func (l *Loop[K]) Add(key K) {
	l.mu.Lock()
	l.enqueue(key)
	l.mu.Unlock()
	l.wakeRun()
}

// AddAfter queues a key after d of cluster time. It does not postpone a key that is queued or due
// earlier, and a later Add does not cancel it.
func (l *Loop[K]) AddAfter(key K, d time.Duration) {
	if d <= 0 {
		l.Add(key)
		return
	}
	l.mu.Lock()
	l.enqueueAfter(key, d)
	l.mu.Unlock()
	l.wakeRun()
}

// Retry queues a key again after the pause that follows one more failure.
func (l *Loop[K]) Retry(key K) {
	l.counts.retries.Add(1, l.counts.name)
	l.mu.Lock()
	l.enqueueAfter(key, l.nextBackoff(key))
	l.mu.Unlock()
	l.wakeRun()
}

// Forget resets the failures of a key.
func (l *Loop[K]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, key)
}

// Len returns how many keys wait for a worker.
func (l *Loop[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// enqueue appends a key to those that wait, unless it is one of them.
func (l *Loop[K]) enqueue(key K) {
	if _, there := l.dirty[key]; there {
		return
	}
	l.dirty[key] = clock.Clock{}.Now()
	l.counts.adds.Add(1, l.counts.name)
	if _, taken := l.busy[key]; !taken {
		l.waiting = append(l.waiting, key)
	}
}

func (l *Loop[K]) enqueueAfter(key K, d time.Duration) {
	l.later.add(key, l.cfg.Clock.Steady().Add(d))
}

// nextBackoff returns the pause after one more failure of key.
func (l *Loop[K]) nextBackoff(key K) time.Duration {
	l.failures[key]++
	own := maxBackoff
	if n := l.failures[key] - 1; n < 18 {
		own = min(firstBackoff<<n, maxBackoff)
	}
	now := l.cfg.Clock.Steady()
	return max(own, l.bucket.ReserveN(now, 1).DelayFrom(now))
}

func (l *Loop[K]) wakeRun() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
