package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
)

const (
	// maxBatch and maxBatchBytes bound a transaction, so that the first request in the queue does
	// not wait for all behind it.
	maxBatch      = 4096
	maxBatchBytes = 16 << 20
	// maxYields is how often the writer yields to callers that are about to queue.
	maxYields = 64
	// recentEvents is the least number of events that are kept in memory. Watches that resume after
	// a short break need no more.
	recentEvents = 2048
)

// writer is the state that only Run's goroutine touches.
type writer struct {
	state state
	// tree is the state that the next write meets.
	tree *tree
	// lastBatch is the number of requests in the last batch.
	lastBatch int
}

// batch is one transaction that is being put together.
type batch struct {
	plan

	requests []*request
	size     int     // of the requests' drafts, in bytes
	swept    []Event // swept out of history: revision and cause
	txBegan  int64   // on the machine's monotonic clock
}

// Run writes commits until ctx ends. It returns nil then, or a *CommitError if the disk has failed.
// In both cases callers that still wait get an error. Run can be called once.
func (s *Store) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("run store: it has run already")
	}
	err := s.writeBatches(ctx)
	if err != nil {
		s.failure = err
		s.cfg.Log.ErrorContext(ctx, "store stopped", "err", err)
	}
	close(s.stopped)
	return err
}

func (s *Store) writeBatches(ctx context.Context) error {
	for {
		b, ok := s.collectBatch(ctx)
		if !ok {
			return nil
		}
		if err := s.saveBatch(ctx, b); err != nil {
			return &CommitError{Revision: s.writer.state.revision, Err: err}
		}
		s.publish(b)
		for _, r := range b.requests {
			close(r.done)
		}
		s.writer.lastBatch = len(b.requests)
	}
}

// collectBatch waits for a request and plans all that have queued behind it. The batch has none if
// a sweep can use the idle time. It returns false when ctx has ended.
//
// A caller that has just got its answer often has its next write almost ready. The writer yields to
// such callers, so that their writes join this batch instead of causing another fsync. Yielding
// takes microseconds, an fsync hundreds of them.
func (s *Store) collectBatch(ctx context.Context) (*batch, bool) {
	b := &batch{plan: plan{tree: s.writer.tree, state: s.writer.state}}
	if b.state.swept == b.state.compacted {
		select {
		case r := <-s.queue.requests:
			b.addRequest(r)
		case <-s.fuse.blown: // saveBatch returns the reason
			return b, true
		case <-ctx.Done():
			return nil, false
		}
	}
	for idle := 0; len(b.requests) < maxBatch && b.size < maxBatchBytes; {
		select {
		case r := <-s.queue.requests:
			b.addRequest(r)
			idle = 0
			continue
		default:
		}
		expected := s.queue.encoding.Load() > 0 || len(b.requests) < s.writer.lastBatch
		if idle > 0 && !expected || idle == maxYields {
			break
		}
		idle++
		runtime.Gosched()
	}
	b.state.compacted = max(b.state.compacted, b.state.revision-int64(s.cfg.History))
	return b, ctx.Err() == nil
}

// addRequest adds a request to the batch and its events to the tree, all of them or none.
func (b *batch) addRequest(r *request) {
	b.requests = append(b.requests, r)
	if r.err = r.callerErr(); r.err != nil {
		return
	}
	for _, d := range r.drafts {
		b.size += len(d.value)
	}
	if r.compact != 0 {
		b.compact(r)
	} else {
		r.events, r.err = b.addCommit(r.writes, r.drafts, r.cause)
	}
}

// saveBatch puts the batch on disk. If it fails there is nothing to undo, because the store ends.
func (s *Store) saveBatch(ctx context.Context, b *batch) error {
	b.txBegan = clock.Monotonic()
	return s.fuse.guard(s.cfg.Path, func() error {
		if len(b.events) == 0 && b.state == s.writer.state && b.state.swept == b.state.compacted {
			return nil
		}
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		if err := s.putBatch(tx, b); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		s.failpoint("store.beforeCommit")
		if err := s.cfg.Faults.Inject(ctx, fault.StoreSync, fault.Attributes{}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		s.failpoint("store.afterCommit")
		// The error is ctx's end. It is ignored, because the change is on disk.
		_ = s.cfg.Faults.Inject(ctx, fault.StoreSynced, fault.Attributes{})
		return nil
	})
}

// putBatch writes the batch's events and the counters.
func (s *Store) putBatch(tx *bbolt.Tx, b *batch) error {
	history := tx.Bucket([]byte(bucketHistory))
	// Revisions only grow, so a full page is never split again.
	history.FillPercent = 1
	wall := s.cfg.Clock.Now().UnixNano()
	for i := range b.events {
		key := revisionKey(b.events[i].Revision)
		b.drafts[i].finish(key, &b.events[i], wall)
		if err := history.Put(key, b.drafts[i].value); err != nil {
			return fmt.Errorf("put revision %d: %w", b.events[i].Revision, err)
		}
	}
	if err := b.sweep(s.cfg.Path, history); err != nil {
		return err
	}
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyState), b.state.encode())
}

// publish makes the batch, which is on disk, visible to readers, and calls OnDurable before and
// OnCommit after.
func (s *Store) publish(b *batch) {
	s.writer.state = b.state
	for _, event := range b.swept {
		s.causes.forget(event)
	}
	before := s.view.Load()
	now := &view{
		snapshot:  before.snapshot,
		compacted: b.state.compacted,
		recent:    before.recent,
		next:      make(chan struct{}),
	}
	if len(b.events) > 0 {
		for _, event := range b.events {
			s.causes.add(event.Cause, event.Revision)
		}
		now.snapshot = &Snapshot{revision: b.state.revision, tree: s.writer.tree.Copy(), txBegan: b.txBegan}
		now.recent = appendRecent(before.recent, b.events)
		if s.cfg.OnDurable != nil {
			s.cfg.OnDurable(now.snapshot, b.events)
		}
	}
	s.view.Store(now)
	close(before.next)
	if s.cfg.OnCommit != nil && len(b.events) > 0 {
		s.cfg.OnCommit(now.snapshot, b.events)
	}
}

// appendRecent appends events to recent, whose array older views share up to their own length. It
// starts a new array when the array has become long.
func appendRecent(recent, events []Event) []Event {
	recent = append(recent, events...)
	if len(recent) > 2*recentEvents {
		recent = slices.Clone(recent[len(recent)-recentEvents:])
	}
	return recent
}

func (s *Store) failpoint(name string) {
	if s.cfg.Failpoint != nil {
		s.cfg.Failpoint(name)
	}
}
