package store

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"k8s.io/apimachinery/pkg/types"
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
	// LockTimeout is how long Open waits for another process to let go; 0 means 1 s.
	LockTimeout time.Duration
	// OnCommit is told of every committed batch, in order, on the writer's goroutine,
	// after the fsync and before any reply. It must not block.
	OnCommit func(*Snapshot, []Event)
	// Failpoint is called at the lines where a crash matters most, by name:
	// "store.beforeCommit" and "store.afterCommit". nil means never.
	Failpoint func(name string)
}

// MaxObject is how many bytes an encoded object may have.
const MaxObject = 16 << 20

// Store is the state of a cluster.
type Store struct{}

// Snapshot is the state of a cluster at one revision.
type Snapshot struct{}

func Open(ctx context.Context, cfg Config) (*Store, error)                  { panic("soon") }
func (s *Store) Close() error                                               { panic("soon") }
func (s *Store) Run(ctx context.Context) error                              { panic("soon") }
func (s *Store) ClusterUID() types.UID                                      { panic("soon") }
func (s *Store) Commit(ctx context.Context, commit Commit) ([]Event, error) { panic("soon") }
func (s *Store) Snapshot() *Snapshot                                        { panic("soon") }
func (s *Store) At(revision int64) (*Snapshot, error)                       { panic("soon") }
func (s *Store) Since(revision int64) ([]Event, error)                      { panic("soon") }
func (s *Store) WaitFor(ctx context.Context, revision int64) error          { panic("soon") }
func (s *Store) Oldest() int64                                              { panic("soon") }
func (s *Store) Compact(ctx context.Context, revision int64) error          { panic("soon") }
func (s *Store) CauseOf(operation string) []Event                           { panic("soon") }

func (s *Snapshot) Revision() int64     { panic("soon") }
func (s *Snapshot) Get(key Key) *Record { panic("soon") }
func (s *Snapshot) Scan(resource, namespace, afterKey string) iter.Seq[*Record] {
	panic("soon")
}
func (s *Snapshot) Count(resource, namespace string) int { panic("soon") }
