// Package expiry removes Events an hour after their last write, as upstream's storage does for
// --event-ttl. An Event is attached to a lease, and Events that are written within a minute share
// one. When a lease ends, its Events are removed in one commit, and watchers see each DELETED. No
// webhook, finalizer or admission plugin is involved.
//
//	leases.go  PURE: which Events end when
//	expiry.go  Keeper, which follows commits and makes those that remove
//
// Leases are in memory only. An apiserver that starts gives every Event that it finds a whole hour,
// as etcd does under a new leader (docs/adr/0027-events-end.md).
package expiry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Resource is the resource whose objects expire.
const Resource = "events"

// Config configures a Keeper.
type Config struct {
	// Commit writes to the store.
	Commit func(context.Context, store.Commit) ([]store.Event, error)
	Clock  clock.Clock
	// NewUID returns a UID for the name of an operation.
	NewUID func() types.UID
	// History records the removals like any other operation; nil records nothing.
	History *history.Recorder
	Log     *slog.Logger
}

// Keeper removes Events whose lease has ended. It is safe for concurrent use.
type Keeper struct {
	cfg Config
	// wake holds one token if a lease was granted.
	wake chan struct{}

	mu     sync.Mutex
	leases leases
}

// New returns a Keeper without leases; Run does the work.
func New(cfg Config) *Keeper {
	return &Keeper{cfg: cfg, wake: make(chan struct{}, 1), leases: leases{byKey: map[store.Key]*lease{}}}
}

// Load grants a lease to every Event in the snapshot.
func (k *Keeper) Load(snapshot *store.Snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Clock.Steady()
	for record := range snapshot.Scan(Resource, "", "") {
		k.leases.grant(record.Key, record.Revision, now)
	}
}

// OnCommit follows every committed batch, before its callers are answered. It never blocks.
func (k *Keeper) OnCommit(events []store.Event) {
	now := k.cfg.Clock.Steady()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, event := range events {
		switch key := event.Record.Key; {
		case key.Resource != Resource:
		case event.Type == store.Deleted:
			k.leases.release(key)
		default:
			k.leases.grant(key, event.Revision, now)
			select {
			case k.wake <- struct{}{}:
			default:
			}
		}
	}
}

// retryDelay is the cluster time between a failure and the next try.
const retryDelay = 5 * time.Second

// Run removes expired Events until ctx ends, and returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		k.mu.Lock()
		ends, removal := k.leases.next()
		k.mu.Unlock()
		if len(removal) == 0 {
			select {
			case <-k.wake:
			case <-ctx.Done():
			}
			continue
		}
		left := ends.Sub(k.cfg.Clock.Steady())
		if left <= 0 && !k.remove(ctx, removal) {
			left = retryDelay
		}
		_ = k.cfg.Clock.Sleep(ctx, left) // its error is that ctx has ended
	}
	return nil
}

// remove commits the removal of a lease's Events. It returns false if it has to be tried again:
// also if one of the Events has been written or removed meanwhile, which OnCommit has noted by
// then.
func (k *Keeper) remove(ctx context.Context, removal []store.Write) bool {
	operation := "events-" + string(k.cfg.NewUID())
	k.cfg.History.Record(operation, history.OpCall{
		Identity: string(proto.APIServer), Verb: string(proto.VerbDeleteCollection), Resource: Resource,
	})
	began, code := k.cfg.History.Now(), int32(http.StatusOK)
	_, err := k.cfg.Commit(ctx, store.Commit{Writes: removal, Cause: operation})
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		code = http.StatusConflict
	} else if err != nil {
		code = http.StatusInternalServerError
	}
	if err != nil {
		k.cfg.Log.InfoContext(ctx, "events are not removed yet", "events", len(removal), "cause", err)
	}
	k.cfg.History.RecordSince(began, operation, history.OpReturn{Code: code})
	return err == nil
}
