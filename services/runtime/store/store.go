// Package store keeps what a runtime must know after a kill -9: its sandboxes, its
// containers, what was done to them and when. It is the runtime's only user of bbolt,
// and knows nothing of what the records mean; schema.go draws them.
//
// # Order
//
// Changes take effect in the order in which Commit and Later were called. Those of one
// call take effect together or, in a crash, not at all.
//
// # Blocking
//
// Commit waits for the disk; whatever has queued while the disk was busy goes into the
// next transaction together, so that an fsync is shared by all who wait for it. Later
// waits for nothing: its changes go with the next commit, or after a second. A caller
// who gives up does not cut a commit short.
//
// # Errors
//
// When the disk refuses a transaction, because it is full for instance, everyone who
// waits gets a *CommitError, and nothing of it is on disk; what Later gave is tried again,
// and so may the callers. Where the file does not show that nothing has changed, Run
// returns the error and no further change is taken: the process is meant to end. Open
// verifies
// every record, and refuses a file with a *DamageError that names the record, or a
// *FormatError when another version wrote it.
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

// Config says where a store is and how it writes.
type Config struct {
	// Path of the file. Its folder must exist.
	Path string
	// History is how many entries of the history are kept; 0 means 65,536.
	History int
	// NoSync leaves out every fsync. For tests: what was committed survives a kill, but
	// not a power cut.
	NoSync bool
}

const (
	defaultHistory = 1 << 16
	// lazily is how long what Later was given may wait, on the wall.
	lazily = time.Second
	// lockWait is how long Open waits for another process to let the file go.
	lockWait = time.Second
)

// Store is an open store. Call Run, and Close when Run has returned.
type Store struct {
	db      *bbolt.DB
	history int
	urgent  chan struct{}
	lazy    chan struct{}

	mu      sync.Mutex
	queue   []Op
	waiting []chan error
	err     error // set once no more is taken
}

// ErrStopped is the answer to a change after Run has returned.
var ErrStopped = errors.New("the runtime's store has stopped")

// Run writes what Commit and Later are given, until ctx ends and everything that was
// given before is on disk.
func (s *Store) Run(ctx context.Context) error {
	timer := clock.Clock{}.Timer(lazily)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-s.urgent:
		case <-timer.C:
		case <-s.lazy:
			timer.Reset(lazily)
			continue
		case <-ctx.Done():
			return s.end()
		}
		if err := s.write(); err != nil {
			return err
		}
	}
}

// end writes what is left and takes no more.
func (s *Store) end() error {
	err := s.write()
	s.refuse(ErrStopped)
	if err != nil {
		return err
	}
	return nil
}

// Commit returns when the changes are on disk.
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

// Later gives changes that may be lost in a crash: what can be told again from other
// records, or is only of interest. Once the store has stopped it does nothing.
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

// write puts all that has queued on disk and tells those who wait. The error is one after
// which nobody knows what the file holds.
func (s *Store) write() error {
	s.mu.Lock()
	ops, waiting := s.queue, s.waiting
	s.queue, s.waiting = nil, nil
	s.mu.Unlock()
	if len(ops) == 0 {
		release(waiting, nil)
		return nil
	}
	var transaction int
	err := s.db.Update(func(tx *bbolt.Tx) error {
		transaction = tx.ID()
		return s.apply(tx, ops)
	})
	if err == nil {
		release(waiting, nil)
		return nil
	}
	failed := &CommitError{Err: err}
	defer release(waiting, failed)
	if !s.undone(transaction) {
		s.refuse(failed)
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

// undone reports whether nothing of a transaction that has failed is in the file. One
// that fails before its last write, that of the page which makes it valid, leaves
// nothing behind but pages that are free. When that page was written and the disk does
// not say that it keeps it, the file may go either way.
func (s *Store) undone(transaction int) bool {
	valid := transaction
	err := s.db.View(func(tx *bbolt.Tx) error {
		valid = tx.ID()
		return nil
	})
	return err == nil && valid < transaction
}

// refuse takes no more changes, and fails those that have queued.
func (s *Store) refuse(err error) {
	s.mu.Lock()
	waiting := s.waiting
	s.err, s.queue, s.waiting = err, nil, nil
	s.mu.Unlock()
	release(waiting, err)
}

// release tells everyone who waits; each has room for one answer.
func release(waiting []chan error, err error) {
	for _, done := range waiting {
		done <- err
	}
}

func (s *Store) apply(tx *bbolt.Tx, ops []Op) error {
	meta := tx.Bucket([]byte(bucketMeta))
	_, all, err := readWhole(meta.Get([]byte(keyWhole)))
	if err != nil {
		return fmt.Errorf("read %s: %w", bucketMeta, err)
	}
	for _, op := range ops {
		bucket := tx.Bucket([]byte(op.bucket))
		var err error
		switch {
		case op.note:
			err = s.note(bucket, op.value, &all)
		case op.value == nil:
			err = remove(bucket, op.key, &all)
		case op.bucket == bucketEvents && orphan(tx, op.key):
		default:
			all.drop(bucket.Get([]byte(op.key)))
			all.add(op.value)
			err = bucket.Put([]byte(op.key), op.value)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", op.bucket, err)
		}
	}
	if err := s.trim(tx.Bucket([]byte(bucketHistory)), &all); err != nil {
		return fmt.Errorf("write %s: %w", bucketHistory, err)
	}
	return meta.Put([]byte(keyWhole), whole(tx.ID(), all).value)
}

// orphan reports whether the container of an event is gone.
func orphan(tx *bbolt.Tx, event string) bool {
	id, _, _ := strings.Cut(event, separator)
	return tx.Bucket([]byte(bucketContainers)).Get([]byte(id)) == nil
}

// note appends an entry to the history.
func (s *Store) note(history *bbolt.Bucket, value []byte, all *tally) error {
	sequence, err := history.NextSequence()
	if err != nil {
		return err
	}
	key := historyKey(sequence)
	seal(bucketHistory, key, value)
	all.add(value)
	return history.Put([]byte(key), value)
}

// trim forgets the oldest entries beyond those that are kept.
func (s *Store) trim(history *bbolt.Bucket, all *tally) error {
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

// remove deletes the key and those that begin with it and a separator.
func remove(bucket *bbolt.Bucket, key string, all *tally) error {
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

// History returns entries after the given sequence, oldest first, at most limit.
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

// Close lets the file go.
func (s *Store) Close() error {
	s.refuse(ErrStopped)
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the runtime's store: %w", err)
	}
	return nil
}
