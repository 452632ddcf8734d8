// Package store keeps what a runtime must know after kill -9: its sandboxes, its containers, and
// what was done to them and when. It is the runtime's only user of bbolt. It does not interpret the
// records; schema.go shows the file format.
//
// # Order
//
// Changes are applied in the order of the Commit and Later calls. The changes of one call are
// applied together or, after a crash, not at all.
//
// # Blocking
//
// Commit waits for the disk. All changes queued while the disk was busy go into one transaction, so
// concurrent callers share an fsync. Later does not block: its changes go with the next commit, or
// after a second. A caller that gives up does not interrupt a commit.
//
// # Errors
//
// If the disk refuses a transaction, for example because it is full, every waiting caller gets a
// *CommitError and nothing is written. Later's changes are retried, and callers may retry theirs.
// If the file may have changed, Run returns the error and accepts no more changes: the process
// should exit. Open verifies every record. It refuses a damaged file with a *DamageError that names
// the record, and a file of another version with a *FormatError.
package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/podfall/podfall/internal/clock"
)

// Config configures a store.
type Config struct {
	// Path of the file. Its directory must exist.
	Path string
	// History is the number of history entries to keep; 0 means 65,536.
	History int
	// NoSync skips every fsync; for tests. Committed changes then outlive a kill but not a power
	// cut.
	NoSync bool
}

const (
	defaultHistory = 1 << 16
	// lazyDelay bounds how long a Later change waits, in wall time.
	lazyDelay = time.Second
	// lockWait bounds how long Open waits for another process to close the file.
	lockWait = time.Second
)

// Store is an open store. Call Run, and Close once Run has returned.
type Store struct {
	db      *bbolt.DB
	history int
	urgent  chan struct{}
	lazy    chan struct{}

	mu      sync.Mutex
	queue   []Op
	waiting []chan error
	err     error // set once no more changes are accepted
}

// ErrStopped is returned for changes after Run has returned.
var ErrStopped = errors.New("the runtime's store has stopped")

// Run writes the changes of Commit and Later until ctx ends and everything queued is on disk.
func (s *Store) Run(ctx context.Context) error {
	timer := clock.Clock{}.Timer(lazyDelay)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-s.urgent:
		case <-timer.C:
		case <-s.lazy:
			timer.Reset(lazyDelay)
			continue
		case <-ctx.Done():
			return s.flushAndStop()
		}
		if err := s.writeQueue(); err != nil {
			return err
		}
	}
}

// flushAndStop writes the queued changes and accepts no more.
func (s *Store) flushAndStop() error {
	err := s.writeQueue()
	s.stopWith(ErrStopped)
	if err != nil {
		return err
	}
	return nil
}

// Commit returns once the changes are on disk.
func (s *Store) Commit(ops ...Op) error {
	done := make(chan error, 1)
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	s.queue = append(s.queue, ops...)
	s.waiting = append(s.waiting, done)
	s.mu.Unlock()
	notify(s.urgent)
	return <-done
}

// Later queues changes that may be lost in a crash: changes that other records can reproduce, or
// that are only informational. It does nothing once the store has stopped.
func (s *Store) Later(ops ...Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	for _, op := range ops {
		op.lazy = true
		s.queue = append(s.queue, op)
	}
	notify(s.lazy)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// writeQueue writes all queued changes and answers the waiting commits. It returns an error only if
// the file's content is unknown.
func (s *Store) writeQueue() error {
	s.mu.Lock()
	ops, waiting := s.queue, s.waiting
	s.queue, s.waiting = nil, nil
	s.mu.Unlock()
	if len(ops) == 0 {
		answer(waiting, nil)
		return nil
	}
	var transaction int
	err := s.db.Update(func(tx *bbolt.Tx) error {
		transaction = tx.ID()
		return s.apply(tx, ops)
	})
	if err == nil {
		answer(waiting, nil)
		return nil
	}
	failed := &CommitError{Err: err}
	defer answer(waiting, failed)
	if !s.rolledBack(transaction) {
		s.stopWith(failed)
		return failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lazy := slices.DeleteFunc(ops, func(op Op) bool { return !op.lazy })
	if len(lazy) > 0 {
		s.queue = append(lazy, s.queue...)
		notify(s.lazy)
	}
	return nil
}

// rolledBack reports whether a failed transaction left nothing in the file. A transaction that
// fails before writing its meta page, which makes it valid, leaves only free pages. If the meta
// page was written but not confirmed by the disk, the result is unknown.
func (s *Store) rolledBack(transaction int) bool {
	valid := transaction
	err := s.db.View(func(tx *bbolt.Tx) error {
		valid = tx.ID()
		return nil
	})
	return err == nil && valid < transaction
}

// stopWith fails the queued commits and rejects all further changes with err.
func (s *Store) stopWith(err error) {
	s.mu.Lock()
	waiting := s.waiting
	s.err, s.queue, s.waiting = err, nil, nil
	s.mu.Unlock()
	answer(waiting, err)
}

// answer sends err to every waiting commit; each channel has room for one answer.
func answer(waiting []chan error, err error) {
	for _, done := range waiting {
		done <- err
	}
}

func (s *Store) apply(tx *bbolt.Tx, ops []Op) error {
	meta := tx.Bucket([]byte(bucketMeta))
	_, all, err := readTally(meta.Get([]byte(keyTally)))
	if err != nil {
		return fmt.Errorf("read %s: %w", bucketMeta, err)
	}
	for _, op := range ops {
		bucket := tx.Bucket([]byte(op.bucket))
		var err error
		switch {
		case op.note:
			err = s.appendHistory(bucket, op.value, &all)
		case op.value == nil:
			err = removeKey(bucket, op.key, &all)
		case op.bucket == bucketEvents && isOrphan(tx, op.key):
		default:
			all.drop(bucket.Get([]byte(op.key)))
			all.add(op.value)
			err = bucket.Put([]byte(op.key), op.value)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", op.bucket, err)
		}
	}
	if err := s.trimHistory(tx.Bucket([]byte(bucketHistory)), &all); err != nil {
		return fmt.Errorf("write %s: %w", bucketHistory, err)
	}
	return meta.Put([]byte(keyTally), putTally(tx.ID(), all).value)
}

// isOrphan reports whether the container of an event was removed.
func isOrphan(tx *bbolt.Tx, event string) bool {
	id, _, _ := strings.Cut(event, separator)
	return tx.Bucket([]byte(bucketContainers)).Get([]byte(id)) == nil
}

// appendHistory appends an entry to the history.
func (s *Store) appendHistory(history *bbolt.Bucket, value []byte, all *tally) error {
	sequence, err := history.NextSequence()
	if err != nil {
		return err
	}
	key := historyKey(sequence)
	seal(bucketHistory, key, value)
	all.add(value)
	return history.Put([]byte(key), value)
}

// trimHistory deletes the oldest entries beyond the limit.
func (s *Store) trimHistory(history *bbolt.Bucket, all *tally) error {
	cursor := history.Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.First() {
		if binary.BigEndian.Uint64(key)+uint64(s.history) > history.Sequence() {
			return nil
		}
		all.drop(value)
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// removeKey deletes the key, and all keys that begin with it and a separator.
func removeKey(bucket *bbolt.Bucket, key string, all *tally) error {
	cursor := bucket.Cursor()
	prefix := []byte(key + separator)
	for k, value := cursor.Seek([]byte(key)); k != nil; k, value = cursor.Seek([]byte(key)) {
		if string(k) != key && !bytes.HasPrefix(k, prefix) {
			return nil
		}
		all.drop(value)
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// History returns at most limit entries after the given sequence, oldest first.
func (s *Store) History(after uint64, limit int) ([]Entry, error) {
	var entries []Entry
	err := s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket([]byte(bucketHistory)).Cursor()
		for key, value := cursor.Seek([]byte(historyKey(after + 1))); key != nil && len(entries) < limit; key, value = cursor.Next() {
			body, err := unseal(bucketHistory, string(key), value)
			if err != nil {
				return err
			}
			entry, err := readEntry(string(key), body)
			if err != nil {
				return err
			}
			entries = append(entries, entry)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the runtime's history: %w", err)
	}
	return entries, nil
}

// Close closes the file.
func (s *Store) Close() error {
	s.stopWith(ErrStopped)
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the runtime's store: %w", err)
	}
	return nil
}
