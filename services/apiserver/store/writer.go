package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
)

const (
	// maxBatch and maxBatchBytes bound a transaction, so that the first in the queue
	// does not wait for all behind it.
	maxBatch      = 4096
	maxBatchBytes = 16 << 20
	// maxYields is how often the writer steps aside for one that is on its way.
	maxYields = 64
	// recentEvents is how many events are kept in memory at least; watches that resume
	// after a short break need no more.
	recentEvents = 2048
	// typicalObject is the room that a draft has for its object at first.
	typicalObject = 1536
)

// writer is what only Run's goroutine touches.
type writer struct {
	state state
	// tree is the state that the next write meets.
	tree *tree
	// answered is how many requests the last batch had.
	answered int
}

// batch is one transaction in the making.
type batch struct {
	requests []*request
	size     int // of their drafts, in bytes
	events   []Event
	drafts   []draft // of events, in the same order
	forget   []Event // swept out of history: revision and cause
	state    state
}

// Run writes what is committed until ctx ends. It returns nil then, or a *CommitError
// when the disk has failed; in both cases who still waits gets an error. It can run
// once.
func (s *Store) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("run store: it has run already")
	}
	err := s.write(ctx)
	if err != nil {
		s.failure = err
		s.cfg.Log.ErrorContext(ctx, "store stopped", "err", err)
	}
	close(s.stopped)
	return err
}

func (s *Store) write(ctx context.Context) error {
	for {
		b, going := s.collect(ctx)
		if !going {
			return nil
		}
		if err := s.save(b); err != nil {
			return &CommitError{Revision: s.writer.state.revision, Err: err}
		}
		s.publish(b)
		for _, r := range b.requests {
			close(r.done)
		}
		s.writer.answered = len(b.requests)
	}
}

// collect waits for a request and plans all that have queued behind it. There are none
// when a sweep can use the quiet; it returns false when ctx has ended.
//
// Who has just been answered often has its next write almost ready. The writer steps
// aside for those, so that they become part of this batch and not the reason for
// another fsync; that takes microseconds, of which an fsync has hundreds.
func (s *Store) collect(ctx context.Context) (*batch, bool) {
	b := &batch{state: s.writer.state}
	if b.state.swept == b.state.compacted {
		select {
		case r := <-s.queue.requests:
			s.plan(b, r)
		case <-s.fuse.blown: // save will say why
			return b, true
		case <-ctx.Done():
			return nil, false
		}
	}
	for idle := 0; len(b.requests) < maxBatch && b.size < maxBatchBytes; {
		select {
		case r := <-s.queue.requests:
			s.plan(b, r)
			idle = 0
			continue
		default:
		}
		expected := s.queue.coming.Load() > 0 || len(b.requests) < s.writer.answered
		if idle > 0 && !expected || idle == maxYields {
			break
		}
		idle++
		runtime.Gosched()
	}
	b.state.compacted = max(b.state.compacted, b.state.revision-int64(s.cfg.History))
	return b, ctx.Err() == nil
}

// plan adds a request to the batch and its events to the tree, all of them or none.
func (s *Store) plan(b *batch, r *request) {
	b.requests = append(b.requests, r)
	for _, d := range r.drafts {
		b.size += len(d.value)
	}
	if r.compact != 0 {
		b.compact(r)
	} else {
		s.apply(b, r)
	}
}

// apply adds r's events to the batch, or r's error to r.
func (s *Store) apply(b *batch, r *request) {
	from, before := len(b.events), b.state
	for i, write := range r.writes {
		var place btree.PathHint
		have, _ := s.writer.tree.GetHint(&Record{Key: write.Key}, &place)
		if !expected(write.Expect, have) {
			s.undo(b.events[from:])
			b.events, b.drafts, b.state = b.events[:from], b.drafts[:from], before
			r.err = &ConflictError{Key: write.Key, Expect: write.Expect, Have: have}
			return
		}
		event, changes := change(write, r.drafts[i], have, b.state.revision+1)
		if !changes {
			continue
		}
		event.Cause = r.cause
		b.events = append(b.events, event)
		b.drafts = append(b.drafts, r.drafts[i])
		b.state.count(event)
		if event.Type == Deleted {
			s.writer.tree.DeleteHint(event.Record, &place)
		} else {
			s.writer.tree.SetHint(event.Record, &place)
		}
	}
	r.events = slices.Clone(b.events[from:])
}

// undo takes events out of the tree again.
func (s *Store) undo(events []Event) {
	for _, event := range slices.Backward(events) {
		if event.Previous == nil {
			s.writer.tree.Delete(event.Record)
		} else {
			s.writer.tree.Set(event.Previous)
		}
	}
}

func expected(expect int64, have *Record) bool {
	switch expect {
	case Any, Previous:
		return true
	case Absent:
		return have == nil
	}
	return have != nil && have.Revision == expect
}

// change is what write does to have; false when that is nothing.
func change(write Write, d draft, have *Record, revision int64) (Event, bool) {
	switch {
	case write.Object == nil && have == nil:
		return Event{}, false
	case write.Object == nil:
		return Event{Revision: revision, Type: Deleted, Record: gravestone(have, revision), Previous: have}, true
	case have == nil:
		record := newRecord(write.Key, revision, write.Object, d.data)
		return Event{Revision: revision, Type: Added, Record: record}, true
	case bytes.Equal(have.Data, d.data):
		return Event{}, false
	}
	record := newRecord(write.Key, revision, write.Object, d.data)
	return Event{Revision: revision, Type: Modified, Record: record, Previous: have}, true
}

// save puts the batch on disk. There is nothing to undo when it fails: the store ends.
func (s *Store) save(b *batch) error {
	return s.fuse.guard(s.cfg.Path, func() error {
		if len(b.events) == 0 && b.state == s.writer.state && b.state.swept == b.state.compacted {
			return nil
		}
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		if err := s.fill(tx, b); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		s.failpoint("store.beforeCommit")
		if err := tx.Commit(); err != nil {
			return err
		}
		s.failpoint("store.afterCommit")
		return nil
	})
}

// fill writes the batch's events and the counters.
func (s *Store) fill(tx *bbolt.Tx, b *batch) error {
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
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyState), b.state.value())
}

// publish shows the batch, which is on disk, to readers and then to the listener.
func (s *Store) publish(b *batch) {
	s.writer.state = b.state
	for _, event := range b.forget {
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
		now.snapshot = &Snapshot{revision: b.state.revision, tree: s.writer.tree.Copy()}
		now.recent = remember(before.recent, b.events)
	}
	s.view.Store(now)
	close(before.next)
	if s.cfg.OnCommit != nil && len(b.events) > 0 {
		s.cfg.OnCommit(now.snapshot, b.events)
	}
}

// remember appends events to recent, whose array older views share up to their own
// length, and starts a new array when it has become long.
func remember(recent, events []Event) []Event {
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
