// Package store keeps the state of a cluster: every object, and every change of the
// recent past. It knows nothing of Kubernetes but how objects are encoded and where
// their resourceVersion is; what may be written is decided by its callers.
//
// The state is in one bbolt file, drawn in schema.go. Writes go to the file and then to
// an immutable tree in memory; reads take the tree, and the file only for history that
// is no longer in memory.
//
//	Commit ─┐                 writer.go, one goroutine                        ┌─ replies
//	Commit ─┼─ queue ─ check expectations ─ bbolt ─ fsync ─ OnDurable ─ publish ─ OnCommit
//	Commit ─┘                                                              │
//	Snapshot, Since, At, WaitFor ──────────────────────────────────────────┘
//
// # Order
//
// There is one counter of revisions, and each write gets the next: no gaps, no
// repeats, also across crashes (WCH-01). Commits take effect in the order in which
// their callers were served, and a caller that has its answer sees its write in each
// later Snapshot. OnDurable is told of every event in revision order, after it is on disk
// and before anybody can read it; OnCommit next, before anybody else is told.
//
// # Blocking
//
// Commit waits for the disk. Whatever has queued while the disk was busy goes into the
// next transaction together, so an fsync is shared by all who wait for it. Snapshot,
// Oldest and Count never wait; Since, At and CauseOf may read the file but never wait
// for a writer.
//
// # Errors
//
// Nothing is acknowledged, shown or told before it is on disk. When the disk refuses a
// commit, Run returns a *CommitError, everyone who waits gets an error, and no further
// write is taken: the process is meant to end, and the next start tells what was
// written. Open verifies every record and the file's structure; it refuses a file with
// a *DamageError that names the record, or a *FormatError when another version wrote
// it. The file is verified again as history is read from it.
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

// Config says where a store is and who listens to it.
type Config struct {
	// Path is the file; it is created when there is none.
	Path string
	// Clock stamps history records; zero is the wall.
	Clock clock.Clock
	// Log defaults to discarding.
	Log *slog.Logger
	// History is how many events are kept for Since and At; 0 means 100,000.
	History int
	// NoSync leaves out the fsync, for tests that do not crash.
	NoSync bool
	// ClusterUID is given to a store that is created now; empty draws one.
	ClusterUID types.UID
	// LockTimeout is how long Open waits for another process to let go of the file; 0
	// means 1 s.
	LockTimeout time.Duration
	// OnDurable is told of every committed batch, in order, on the writer's goroutine, after the
	// fsync and before a reader can see it. It must not block.
	OnDurable func(*Snapshot, []Event)
	// OnCommit is told of it next, when readers see it, and before any reply. It must not block.
	OnCommit func(*Snapshot, []Event)
	// Failpoint is called at the lines where a crash matters most, by name:
	// "store.beforeCommit" and "store.afterCommit". nil means never.
	Failpoint func(name string)
	// Faults are asked at store.commit, store.sync and store.synced.
	Faults *fault.Table
}

// MaxObject is how many bytes an encoded object may have, so that a message with one
// fits the bus, which carries 8 MiB. It is more than the API takes, for an object at
// that limit must still take the marks of its deletion.
const MaxObject = 4 << 20

// Store is the state of a cluster, open in this process.
type Store struct {
	cfg    Config
	db     *bbolt.DB
	uid    types.UID
	queue  queue
	writer writer
	causes *causes
	past   past
	fuse   *fuse
	view   atomic.Pointer[view]

	running atomic.Bool
	ending
}

// ending is how Run ends.
type ending struct {
	// stopped is closed when Run has returned; failure is written before.
	stopped chan struct{}
	failure error
}

// view is what readers see: the state after one commit. It is immutable, and replaced
// after each fsync.
type view struct {
	snapshot  *Snapshot
	compacted int64
	// recent are the last events, without a gap up to the snapshot's revision.
	recent []Event
	// next is closed when a newer view is there.
	next chan struct{}
}

// Open reads the store at cfg.Path, verifies all of it, and locks it against other
// processes. It creates what is not there. It starts nothing: Run does the writing.
//
// The error is a *DamageError, a *FormatError, ErrLocked, or what the system said.
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

// Close lets go of the file. Run must have returned.
func (s *Store) Close() error {
	if s.fuse.isBlown() {
		return nil // the lock goes with the process
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// patience knows how long commits have waited in vain.
type patience struct {
	mu      sync.Mutex
	waiting int
	since   time.Time
}

// wait notes one more commit that waits, until done is called; given up says that it
// was not carried out.
func (p *patience) wait(now func() time.Time) (done func(givenUp error)) {
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

// Writing is since when commits have waited and none has been carried out; zero when none
// waits.
func (s *Store) Writing() time.Time {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if s.queue.waiting == 0 {
		return time.Time{}
	}
	return s.queue.since
}

// ClusterUID is drawn when a store is created and stays the same ever after.
func (s *Store) ClusterUID() types.UID { return s.uid }

// Snapshot is the state after the last acknowledged commit, or a later one.
func (s *Store) Snapshot() *Snapshot { return s.view.Load().snapshot }

// Oldest is the first revision whose event is still there. Since and At answer
// ErrCompacted below Oldest-1, and never at or above it.
func (s *Store) Oldest() int64 { return s.view.Load().compacted + 1 }

// WaitFor returns once the store has reached revision (WCH-03); ErrStopped, or the
// cause of ctx's end, when that will not be.
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
			return fmt.Errorf("wait for revision %d: %w", revision, s.whyStopped())
		case <-s.stopped:
			return fmt.Errorf("wait for revision %d: %w", revision, s.whyStopped())
		}
	}
}

// whyStopped may be called once stopped is closed or the fuse has blown.
func (s *Store) whyStopped() error {
	if s.fuse.isBlown() {
		return fmt.Errorf("%w: %w", ErrStopped, &CommitError{Revision: s.Snapshot().revision, Err: s.fuse.why})
	}
	if s.failure != nil {
		return fmt.Errorf("%w: %w", ErrStopped, s.failure)
	}
	return ErrStopped
}

// past keeps a few older snapshots, so that the pages of a list are worked out once.
type past struct {
	mu        sync.Mutex
	snapshots []*Snapshot
}
