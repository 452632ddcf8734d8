package verbs

import (
	"context"
	"time"

	"github.com/podfall/podfall/services/apiserver/store"
)

// Store is what the verbs read and write: a *store.Store, or a *store.Memory.
type Store interface {
	// Snapshot returns the present state.
	Snapshot() *store.Snapshot
	// At returns the state at a revision.
	At(revision int64) (*store.Snapshot, error)
	// WaitFor returns once the store has reached a revision.
	WaitFor(ctx context.Context, revision int64) error
	// EventsOfOperation returns what an operation has changed.
	EventsOfOperation(operation string) ([]store.Event, error)
	// Commit writes to the store.
	Commit(ctx context.Context, commit store.Commit) ([]store.Event, error)
	// WaitingSince returns since when commits have waited without any being carried out.
	WaitingSince() time.Time
}
