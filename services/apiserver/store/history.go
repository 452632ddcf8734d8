package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

const (
	// readChunk is how many events are read from the file in one transaction. A reader that holds a
	// transaction for long keeps bbolt from reusing pages.
	readChunk = 256
	// cachedSnapshots is how many older states At keeps: about the number of lists that are being
	// paged through at a time.
	cachedSnapshots = 4
)

// Since returns every event after revision, oldest first, and none for a revision at or beyond the
// store's (WCH-10). The error is a *CompactedError, or a *DamageError if the file has been damaged.
//
// Events that are not among the last few thousand, or are of an earlier process, are read from the
// file, and versions that are no longer current are decoded. SinceAtMost bounds that work.
func (s *Store) Since(revision int64) ([]Event, error) {
	return s.SinceAtMost(revision, int(^uint(0)>>1))
}

// SinceAtMost returns the first limit events of Since.
func (s *Store) SinceAtMost(revision int64, limit int) ([]Event, error) {
	now := s.view.Load()
	if revision < now.compacted {
		return nil, &CompactedError{Revision: revision, Oldest: now.compacted + 1}
	}
	last := now.snapshot.revision
	if int64(limit) < last-revision {
		last = revision + int64(limit)
	}
	var events []Event
	err := s.readHistory(now, revision, min(last, now.lastOnDisk()), func(r *reader, at int64) error {
		event, err := r.event(at)
		events = append(events, event)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("events since revision %d: %w", revision, err)
	}
	return append(events, now.recentBetween(revision, last)...), nil
}

// At returns the state at revision. The error is a *CompactedError, ErrFuture, or a *DamageError if
// the file has been damaged. The cost grows with the number of events since revision; the last few
// results are cached.
func (s *Store) At(revision int64) (*Snapshot, error) {
	now := s.view.Load()
	switch {
	case revision == now.snapshot.revision:
		return now.snapshot, nil
	case revision > now.snapshot.revision:
		return nil, fmt.Errorf("state at revision %d: %w", revision, ErrFuture)
	case revision < now.compacted:
		return nil, &CompactedError{Revision: revision, Oldest: now.compacted + 1}
	}
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	for _, kept := range s.cache.snapshots {
		if kept.revision == revision {
			return kept, nil
		}
	}
	then, err := s.rewind(now, revision)
	if err != nil {
		return nil, fmt.Errorf("state at revision %d: %w", revision, err)
	}
	if len(s.cache.snapshots) == cachedSnapshots {
		s.cache.snapshots = slices.Delete(s.cache.snapshots, 0, 1)
	}
	s.cache.snapshots = append(s.cache.snapshots, then)
	return then, nil
}

// rewind undoes the events between revision and now: each changed object gets back the version that
// its first change replaced.
func (s *Store) rewind(now *view, revision int64) (*Snapshot, error) {
	type version struct {
		revision int64 // 0 when there was none
		record   *Record
	}
	before := map[Key]version{}
	first := func(key Key, v version) {
		if _, seen := before[key]; !seen {
			before[key] = v
		}
	}
	err := s.readHistory(now, revision, min(now.snapshot.revision, now.lastOnDisk()), func(r *reader, at int64) error {
		e, err := r.entry(at)
		if err != nil {
			return err
		}
		v := version{revision: e.previous}
		if _, seen := before[e.key]; !seen && v.revision != 0 {
			v.record, err = r.record(v.revision)
		}
		first(e.key, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, event := range now.recentBetween(revision, now.snapshot.revision) {
		first(event.Record.Key, version{record: event.Previous})
	}
	then := now.snapshot.tree.Copy()
	for key, v := range before {
		if v.record == nil {
			then.Delete(&Record{Key: key})
		} else {
			then.Set(v.record)
		}
	}
	return &Snapshot{revision: revision, tree: then}, nil
}

// EventsOfOperation returns the events of the commits with this cause, oldest first; none if the
// history has none. The error is a *DamageError if the file has been damaged: then the operation
// may or may not have happened.
func (s *Store) EventsOfOperation(operation string) ([]Event, error) {
	var events []Event
	for _, revision := range s.causes.revisions(operation) {
		event, err := s.SinceAtMost(revision-1, 1)
		if errors.Is(err, ErrCompacted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("events of operation %s: %w", operation, err)
		}
		events = append(events, event...)
	}
	return events, nil
}

// lastOnDisk is the last revision whose event is only in the file.
func (v *view) lastOnDisk() int64 { return v.snapshot.revision - int64(len(v.recent)) }

// recentBetween returns the recent events after from, up to and including to.
func (v *view) recentBetween(from, to int64) []Event {
	first, last := max(from-v.lastOnDisk(), 0), max(to-v.lastOnDisk(), 0)
	return v.recent[min(first, last):last:last]
}

// reader reads history within one transaction.
type reader struct {
	path    string
	history *bbolt.Bucket
	// current has objects that need no decoding. When an apiserver has restarted, every watch
	// resumes, and most of the versions that it reads are still current.
	current *Snapshot
	// records holds versions that are decoded already: the previous version of an event often is
	// that of the event before.
	records map[int64]*Record
}

// readHistory calls each for every revision after from, up to and including to, in short
// transactions. Current versions are not decoded.
func (s *Store) readHistory(now *view, from, to int64, each func(*reader, int64) error) error {
	records := map[int64]*Record{}
	for from < to {
		until := min(from+readChunk, to)
		err := s.fuse.guard(s.cfg.Path, func() error {
			return s.db.View(func(tx *bbolt.Tx) error {
				if err := checkNotCompacted(tx, s.cfg.Path, from); err != nil {
					return err
				}
				r := &reader{
					path: s.cfg.Path, history: tx.Bucket([]byte(bucketHistory)),
					current: now.snapshot, records: records,
				}
				for at := from + 1; at <= until; at++ {
					if err := each(r, at); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		from = until
	}
	return nil
}

// checkNotCompacted returns a *CompactedError if events after revision are no longer in the file.
// Compaction goes on while history is read.
func checkNotCompacted(tx *bbolt.Tx, path string, revision int64) error {
	now, err := parseState(tx.Bucket([]byte(bucketMeta)).Get([]byte(keyState)))
	if err != nil {
		return &DamageError{Path: path, Bucket: bucketMeta, Record: keyState, What: err.Error()}
	}
	if revision < now.compacted {
		return &CompactedError{Revision: revision, Oldest: now.compacted + 1}
	}
	return nil
}

func (r *reader) entry(revision int64) (entry, error) {
	key := revisionKey(revision)
	value := r.history.Get(key)
	if value == nil {
		return entry{}, revisionDamage(r.path, revision, errMissing)
	}
	e, err := parseEntry(key, value)
	if err != nil {
		return entry{}, revisionDamage(r.path, revision, err)
	}
	return e, nil
}

func (r *reader) record(revision int64) (*Record, error) {
	if record := r.records[revision]; record != nil {
		return record, nil
	}
	e, err := r.entry(revision)
	if err != nil {
		return nil, err
	}
	if e.typ == Deleted {
		return nil, revisionDamage(r.path, revision, errShape)
	}
	if now := r.current.Get(e.key); now != nil && now.Revision == revision {
		return now, nil
	}
	record, err := e.record()
	if err != nil {
		return nil, revisionDamage(r.path, revision, err)
	}
	r.records[revision] = record
	return record, nil
}

func (r *reader) event(revision int64) (Event, error) {
	e, err := r.entry(revision)
	if err != nil {
		return Event{}, err
	}
	event := Event{Revision: revision, Type: e.typ, Cause: e.cause}
	if e.previous != 0 {
		if event.Previous, err = r.record(e.previous); err != nil {
			return Event{}, err
		}
	}
	if e.typ == Deleted {
		event.Record = tombstone(event.Previous, revision)
		return event, nil
	}
	event.Record, err = r.record(revision)
	return event, err
}

// causes indexes revisions by operation. Nearly every operation has one revision, so further ones
// are in a map of their own.
type causes struct {
	mu    sync.RWMutex
	first map[string]int64
	more  map[string][]int64
}

func (c *causes) add(cause string, revision int64) {
	if cause == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.first[cause]; known {
		c.more[cause] = append(c.more[cause], revision)
		return
	}
	c.first[cause] = revision
}

// forget drops an event from the index. Events are forgotten oldest first.
func (c *causes) forget(event Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first[event.Cause] != event.Revision {
		return
	}
	more := c.more[event.Cause]
	if len(more) == 0 {
		delete(c.first, event.Cause)
		return
	}
	c.first[event.Cause] = more[0]
	if len(more) == 1 {
		delete(c.more, event.Cause)
	} else {
		c.more[event.Cause] = more[1:]
	}
}

// revisions returns the revisions of an operation, oldest first.
func (c *causes) revisions(cause string) []int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	first, known := c.first[cause]
	if !known {
		return nil
	}
	return append([]int64{first}, c.more[cause]...)
}
