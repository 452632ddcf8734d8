package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto/kinds"
)

// queue holds calls of Commit and Compact until the writer takes them.
type queue struct {
	requests chan *request
	// encoding counts the calls that are encoding their objects and will queue in a moment.
	encoding atomic.Int64
	pendingCommits
}

// request is one call of Commit or Compact in the queue.
type request struct {
	writes []Write
	drafts []draft // of writes, in the same order
	cause  string
	// compact is the revision to compact at; 0 for a Commit.
	compact int64
	// callerErr returns the error of the caller's context. A request is not carried out if its
	// caller has given up.
	callerErr func() error

	events []Event
	err    error
	done   chan struct{} // closed when events and err are final
}

// Commit writes all of a commit or nothing, and returns its events once they are on disk. A write
// that would leave the stored bytes unchanged is skipped: no revision, no event (API-46). So is the
// deletion of a missing object, if the expectation allows it.
//
// Errors are a *ConflictError (the first write that found another version than expected),
// ErrInvalid, and ErrStopped with a *CommitError behind it if the disk failed. If ctx ends first,
// the error is ErrCommitTimeout with ctx's cause behind it, and the writes may or may not happen.
// They do not happen if ctx ended before their transaction began. If ctx had ended before the call,
// the error is ctx's cause alone.
func (s *Store) Commit(ctx context.Context, commit Commit) ([]Event, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("commit: %w", context.Cause(ctx))
	}
	events, err := s.commit(ctx, commit)
	switch {
	case err == nil:
		return events, nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil, fmt.Errorf("commit: %w: %w", ErrCommitTimeout, err)
	}
	return nil, fmt.Errorf("commit: %w", err)
}

// commit does the work of Commit; its errors lack the prefix.
func (s *Store) commit(ctx context.Context, commit Commit) ([]Event, error) {
	done := s.queue.begin(s.cfg.Clock.Now)
	defer func() { done(ctx.Err()) }()
	if len(commit.Writes) > 0 {
		key := commit.Writes[0].Key
		about := fault.Attributes{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name}
		if err := s.cfg.Faults.Inject(ctx, fault.StoreCommit, about); err != nil {
			return nil, fmt.Errorf("the store has not written: %w", err)
		}
	}
	s.queue.encoding.Add(1)
	drafts, err := encodeWrites(commit)
	s.queue.encoding.Add(-1)
	if err != nil {
		return nil, err
	}
	r := &request{
		writes: commit.Writes, drafts: drafts, cause: commit.Cause,
		done: make(chan struct{}),
	}
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	return r.events, nil
}

// submit queues r and waits until the writer has handled it.
func (s *Store) submit(ctx context.Context, r *request) error {
	r.callerErr = ctx.Err
	select {
	case s.queue.requests <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopped:
		return s.stopError()
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.fuse.blown:
	case <-s.stopped:
	}
	select {
	case <-r.done: // by the last batch
		return r.err
	default:
		return s.stopError()
	}
}

// encodeWrites checks and encodes the writes of a commit. It runs on the caller's goroutine,
// because it needs no state of the store.
func encodeWrites(commit Commit) ([]draft, error) {
	if len(commit.Cause) > maxCause {
		return nil, fmt.Errorf("%w: the cause has %d bytes", ErrInvalid, len(commit.Cause))
	}
	drafts := make([]draft, len(commit.Writes))
	for i, write := range commit.Writes {
		if err := checkKey(write.Key); err != nil {
			return nil, err
		}
		earlier := func(w Write) bool { return w.Key == write.Key }
		if write.Expect == Previous && !slices.ContainsFunc(commit.Writes[:i], earlier) {
			return nil, fmt.Errorf("%w: %s: no earlier write in this commit", ErrInvalid, write.Key)
		}
		d, err := encodeWrite(write, commit.Cause)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", write.Key, err)
		}
		drafts[i] = d
	}
	return drafts, nil
}

func checkKey(key Key) error {
	for _, part := range []string{key.Resource, key.Namespace, key.Name} {
		if len(part) > maxKeyPart || strings.Contains(part, "\x00") {
			return fmt.Errorf("%w: key %.80q", ErrInvalid, part)
		}
	}
	if key.Resource == "" || key.Name == "" {
		return fmt.Errorf("%w: key %q has an empty part", ErrInvalid, key)
	}
	return nil
}

// encodeWrite encodes a write. It first brings the object into the form that it has after a
// restart: kind and version set, timestamps in whole seconds.
func encodeWrite(write Write, cause string) (draft, error) {
	obj := write.Object
	if obj == nil {
		return newDraft(write.Key, cause, nil)
	}
	gvk, err := kinds.GVK(obj)
	if err != nil {
		return draft{}, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetResourceVersion("")
	if created := obj.GetCreationTimestamp(); created.Nanosecond() != 0 {
		obj.SetCreationTimestamp(created.Rfc3339Copy())
	}
	if deleted := obj.GetDeletionTimestamp(); deleted != nil && deleted.Nanosecond() != 0 {
		obj.SetDeletionTimestamp(&metav1.Time{Time: deleted.Rfc3339Copy().Time})
	}
	d, err := newDraft(write.Key, cause, obj)
	if err == nil && len(d.data) > MaxObject {
		return draft{}, fmt.Errorf("%w: the object has %d bytes, %d are allowed", ErrInvalid, len(d.data), MaxObject)
	}
	return d, err
}
