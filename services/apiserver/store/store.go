// Package store keeps the state of a cluster: every object, and every change of the recent past. Of
// Kubernetes it knows only how objects are encoded and where their resourceVersion is. Its callers
// decide what may be written.
//
// The state is in one bbolt file, drawn in schema.go. Writes go to the file first and then to an
// immutable tree in memory. Reads take the tree, and the file only for history that is no longer in
// memory.
//
//	Commit ─┐                 writer.go, one goroutine                        ┌─ replies
//	Commit ─┼─ queue ─ check expectations ─ bbolt ─ fsync ─ OnDurable ─ publish ─ OnCommit
//	Commit ─┘                                                              │
//	Snapshot, Since, At, WaitFor ──────────────────────────────────────────┘
//
// # Order
//
// There is one counter of revisions, and each write gets the next: no gaps, no repeats, also across
// crashes (WCH-01). Commits take effect in the order in which they were queued. A caller that has
// its answer sees its write in each later Snapshot. OnDurable is called with every event in
// revision order, after the event is on disk and before any reader can see it. OnCommit is called
// next, before any caller is answered.
//
// # Blocking
//
// Commit waits for the disk. Commits that have queued while the disk was busy go into the next
// transaction together, so they share an fsync. Snapshot, Oldest and Count never wait. Since, At
// and EventsOfOperation may read the file but never wait for a writer.
//
// # Errors
//
// No write is acknowledged or visible before it is on disk. If the disk refuses a commit, Run
// returns a *CommitError, every waiting caller gets an error, and no further write is taken: the
// process should end, and the next start shows what was written. Open verifies every record and the
// file's structure. It refuses a damaged file with a *DamageError that names the record, and a file
// of another version with a *FormatError. History is verified again whenever it is read from the
// file.
package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
)

// Config says where a store is and which functions it calls.
type Config struct {
	// Path is the file; it is created if missing.
	Path string
	// Clock stamps history records; zero is wall-clock time.
	Clock clock.Clock
	// Log defaults to discarding.
	Log *slog.Logger
	// History is how many events are kept for Since and At; 0 means 100,000.
	History int
	// NoSync leaves out the fsync, for tests that do not crash.
	NoSync bool
	// ClusterUID is given to a store that is created now; empty draws a random one.
	ClusterUID types.UID
	// LockTimeout is how long Open waits for another process to close the file; 0 means 1 s.
	LockTimeout time.Duration
	// OnDurable is called with every committed batch, in order, on the writer's goroutine, after
	// the fsync and before a reader can see the batch. It must not block.
	OnDurable func(*Snapshot, []Event)
	// OnCommit is called after OnDurable, when readers see the batch, and before any reply. It must
	// not block.
	OnCommit func(*Snapshot, []Event)
	// Failpoint is called at the lines where a crash matters most, by name:
	// "store.beforeCommit" and "store.afterCommit". nil means never.
	Failpoint func(name string)
	// Faults are injected at store.commit, store.sync and store.synced.
	Faults *fault.Table
}

// MaxObject is the largest size of an encoded object in bytes, so that a message with one object
// fits the bus, which carries 8 MiB. It is more than the API takes, because an object at the API's
// limit must still take the marks of its deletion.
const MaxObject = 4 << 20

// Store is the state of a cluster, open in this process.
type Store struct {
	cfg    Config
	db     *bbolt.DB
	uid    types.UID
	queue  queue
	writer writer
	causes *causes
	cache  snapshotCache
	fuse   *fuse
	view   atomic.Pointer[view]

	running atomic.Bool
	ending
}

// ending holds how Run ended.
type ending struct {
	// stopped is closed when Run has returned; failure is written before.
	stopped chan struct{}
	failure error
}

// view is the state that readers see after one commit. It is immutable, and replaced after each
// fsync.
type view struct {
	snapshot  *Snapshot
	compacted int64
	// recent holds the last events, without a gap up to the snapshot's revision.
	recent []Event
	// next is closed when a newer view exists.
	next chan struct{}
}

// Open reads the store at cfg.Path, verifies all of it, and locks it against other processes. Open
// creates a missing file. It starts no goroutine: Run does the writing.
//
// The error is a *DamageError, a *FormatError, ErrLocked, or an error of the operating system.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.History <= 0 {
		cfg.History = 100_000
	}
	if cfg.LockTimeout <= 0 {
		cfg.LockTimeout = time.Second
	}
	db, err := openFile(cfg)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	loaded, err := load(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		cfg:    cfg,
		db:     db,
		uid:    loaded.uid,
		queue:  queue{requests: make(chan *request, 1024)},
		writer: writer{state: loaded.state, tree: loaded.tree},
		causes: loaded.causes,
		fuse:   newFuse(),
		ending: ending{stopped: make(chan struct{})},
	}
	s.view.Store(&view{
		snapshot:  &Snapshot{revision: loaded.state.revision, tree: loaded.tree.Copy()},
		compacted: loaded.state.compacted,
		next:      make(chan struct{}),
	})
	cfg.Log.InfoContext(ctx, "store opened", "path", cfg.Path, "revision", loaded.state.revision,
		"objects", loaded.tree.Len(), "oldest", s.Oldest())
	return s, nil
}

// Close closes and unlocks the file. Run must have returned.
func (s *Store) Close() error {
	if s.fuse.isBlown() {
		return nil // the lock goes with the process
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// pendingCommits knows since when commits have waited without any of them being written.
type pendingCommits struct {
	mu      sync.Mutex
	waiting int
	since   time.Time
}

// begin counts one more waiting commit until done is called. givenUp is the caller's error if the
// commit was not carried out.
func (p *pendingCommits) begin(now func() time.Time) (done func(givenUp error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == 0 {
		p.since = now()
	}
	p.waiting++
	return func(givenUp error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting--
		if givenUp == nil {
			p.since = now()
		}
	}
}

// WaitingSince returns since when commits have waited without any being carried out; zero if none
// waits.
func (s *Store) WaitingSince() time.Time {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.queue.waiting == 0 {
		return time.Time{}
	}
	return s.queue.since
}

// ClusterUID returns the UID that was drawn when the store was created.
func (s *Store) ClusterUID() types.UID { return s.uid }

// Snapshot returns the state after the last acknowledged commit, or a later one.
func (s *Store) Snapshot() *Snapshot { return s.view.Load().snapshot }

// Oldest returns the first revision whose event is still in the history. Since and At return
// ErrCompacted below Oldest-1, and never at or above it.
func (s *Store) Oldest() int64 { return s.view.Load().compacted + 1 }

// WaitFor returns once the store has reached revision (WCH-03). It returns ErrStopped, or the cause
// of ctx's end, if the store does not reach it.
func (s *Store) WaitFor(ctx context.Context, revision int64) error {
	for {
		now := s.view.Load()
		if now.snapshot.revision >= revision {
			return nil
		}
		select {
		case <-now.next:
		case <-ctx.Done():
			return fmt.Errorf("wait for revision %d: %w", revision, context.Cause(ctx))
		case <-s.fuse.blown:
			return fmt.Errorf("wait for revision %d: %w", revision, s.stopError())
		case <-s.stopped:
			return fmt.Errorf("wait for revision %d: %w", revision, s.stopError())
		}
	}
}

// stopError returns ErrStopped with its reason. Call it only after stopped is closed or the fuse
// has blown.
func (s *Store) stopError() error {
	if s.fuse.isBlown() {
		return fmt.Errorf("%w: %w", ErrStopped, &CommitError{Revision: s.Snapshot().revision, Err: s.fuse.err})
	}
	if s.failure != nil {
		return fmt.Errorf("%w: %w", ErrStopped, s.failure)
	}
	return ErrStopped
}

// snapshotCache keeps a few older snapshots, so that the state behind the pages of a list is
// computed once.
type snapshotCache struct {
	mu        sync.Mutex
	snapshots []*Snapshot
}
