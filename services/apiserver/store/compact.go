package store

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"
)

// minSweep is the least number of revisions that a commit sweeps. A commit of n events sweeps 2n:
// more than it adds, so the sweep catches up, and so few that no write waits for it.
const minSweep = 128

// Compact forgets every event at or before revision. When it has returned, Oldest is revision+1.
// The state at revision itself and every live object stay, as in etcd. Later commits free the space
// in small steps. Compact does nothing for a revision that is compacted already, and returns
// ErrFuture for one that the store has not reached.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	if revision <= 0 {
		return nil
	}
	r := &request{compact: revision, done: make(chan struct{})}
	if err := s.submit(ctx, r); err != nil {
		return fmt.Errorf("compact at %d: %w", revision, err)
	}
	return nil
}

// compact advances the compacted revision to that of r.
func (b *batch) compact(r *request) {
	if r.compact > b.state.revision {
		r.err = fmt.Errorf("%w: the store is at %d", ErrFuture, b.state.revision)
		return
	}
	b.state.compacted = max(b.state.compacted, r.compact)
}

// sweep removes from history what compaction made unreachable, for a bounded number of revisions,
// and advances swept.
//
// At or before swept the history has only the versions that were live at swept. To move swept past
// an event, sweep deletes the version that the event replaced, and the event itself if it is a
// deletion. So the previous version of every event that can still be read is in the file.
func (b *batch) sweep(path string, history *bbolt.Bucket) error {
	limit := b.state.swept + int64(max(minSweep, 2*len(b.events)))
	for b.state.swept < min(b.state.compacted, limit) {
		revision := b.state.swept + 1
		key := revisionKey(revision)
		e, err := parseEntry(key, history.Get(key))
		if err != nil {
			return revisionDamage(path, revision, err)
		}
		if e.previous != 0 {
			if err := history.Delete(revisionKey(e.previous)); err != nil {
				return fmt.Errorf("sweep revision %d: %w", e.previous, err)
			}
		}
		if e.typ == Deleted {
			if err := history.Delete(key); err != nil {
				return fmt.Errorf("sweep revision %d: %w", revision, err)
			}
		}
		b.swept = append(b.swept, Event{Revision: revision, Cause: e.cause})
		b.state.swept = revision
	}
	return nil
}

// revisionDamage returns a *DamageError about one revision of history.
func revisionDamage(path string, revision int64, what error) error {
	return &DamageError{
		Path: path, Bucket: bucketHistory,
		Record: fmt.Sprintf("revision %d", revision), What: what.Error(),
	}
}
