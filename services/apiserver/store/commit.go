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

// queue is where calls of Commit and Compact wait for the writer.
type queue struct {
	requests chan *request
	// coming is how many calls are encoding what they will queue in a moment.
	coming atomic.Int64
	patience
}

// request is one call of Commit or Compact on its way through the queue.
type request struct {
	writes []Write
	drafts []draft // of writes, in the same order
	cause  string
	// compact is the revision to compact at; 0 for a Commit.
	compact int64
	// gone is the error of whoever waits no longer: nothing is done for it then.
	gone func() error

	events []Event
	err    error
	done   chan struct{} // closed when events and err are final
}

// Commit writes all of it or nothing, and returns the events once they are on disk. A
// write that would leave the same bytes as there are is left out: no revision, no event
// (API-46). So is the deletion of what is not there, where the expectation allows it.
//
// Errors are a *ConflictError (the first write that was not as expected), ErrInvalid,
// and ErrStopped with a *CommitError behind it when the disk failed. When ctx ends
// first its cause is returned behind ErrWaited, and the writes may or may not happen; they
// do not when it had ended before their transaction began. Who comes when ctx has ended
// already has not waited for the store, and gets the cause alone.
func (s *Store) Commit(ctx context.Context, commit Commit) ([]Event, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("commit: %w", context.Cause(ctx))
	}
	events, err := s.commit(ctx, commit)
	switch {
	case err == nil:
		return events, nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return nil, fmt.Errorf("commit: %w: %w", ErrWaited, err)
	}
	return nil, fmt.Errorf("commit: %w", err)
}

// commit is Commit; its errors do not say so.
func (s *Store) commit(ctx context.Context, commit Commit) ([]Event, error) {
	done := s.queue.wait(s.cfg.Clock.Now)
	defer func() { done(ctx.Err()) }()
	if len(commit.Writes) > 0 {
		key := commit.Writes[0].Key
		about := fault.About{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name}
		if err := s.cfg.Faults.Pass(ctx, fault.StoreCommit, about); err != nil {
			return nil, fmt.Errorf("the store has not written: %w", err)
		}
	}
	s.queue.coming.Add(1)
	drafts, err := prepare(commit)
	s.queue.coming.Add(-1)
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

// submit queues r and waits for its end.
func (s *Store) submit(ctx context.Context, r *request) error {
	r.gone = ctx.Err
	select {
	case s.queue.requests <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopped:
		return s.whyStopped()
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
		return s.whyStopped()
	}
}

// prepare does on the caller's goroutine what needs no knowledge of the state.
func prepare(commit Commit) ([]draft, error) {
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
		d, err := draftOf(write, commit.Cause)
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

// draftOf encodes the write, after it has brought the object into the form that it has
// after a restart: kind and version set, timestamps in whole seconds.
func draftOf(write Write, cause string) (draft, error) {
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
