package store

import (
	"errors"
	"fmt"

	"github.com/podfall/podfall/internal/boltfile"
)

var (
	// ErrConflict is what a *ConflictError wraps.
	ErrConflict = errors.New("the object is not as the write expects it")
	// ErrCompacted is what a *CompactedError wraps.
	ErrCompacted = errors.New("the revision has been compacted")
	// ErrFuture is what At and Compact answer about a revision that is still to come.
	ErrFuture = errors.New("the revision is in the future")
	// ErrLocked is what Open answers while another process has the file open.
	ErrLocked = errors.New("another process has the store open")
	// ErrStopped is what Commit, Compact and WaitFor answer once Run has returned.
	ErrStopped = errors.New("the store has stopped")
	// ErrWaited is what Commit answers, with the cause behind it, when its caller's time
	// was over before the store had written.
	ErrWaited = errors.New("the store has not written in time")
	// ErrInvalid is what Commit answers to a write that no store can hold: a key with
	// an empty or oversized part, an object beyond MaxObject, Previous without an
	// earlier write.
	ErrInvalid = errors.New("invalid write")
)

// ConflictError says that an object is not as a write expects it. Nothing of the
// commit was written.
type ConflictError struct {
	Key    Key
	Expect int64
	// Have is the object as it is; nil when there is none.
	Have *Record
}

// Error names the object and both revisions.
func (e *ConflictError) Error() string {
	have := "there is none"
	if e.Have != nil {
		have = fmt.Sprintf("it is at revision %d", e.Have.Revision)
	}
	if e.Expect == Absent {
		return fmt.Sprintf("%s: expected none: %s", e.Key, have)
	}
	return fmt.Sprintf("%s: expected at revision %d: %s", e.Key, e.Expect, have)
}

// Unwrap is ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// CompactedError says that the history no longer reaches back to a revision.
type CompactedError struct {
	Revision int64
	// Oldest is the first revision whose event is still there; the state at Oldest-1 is
	// the oldest that can be read.
	Oldest int64
}

// Error names the revision asked for and the oldest there is.
func (e *CompactedError) Error() string {
	return fmt.Sprintf("revision %d: the history starts at %d", e.Revision, e.Oldest)
}

// Unwrap is ErrCompacted.
func (e *CompactedError) Unwrap() error { return ErrCompacted }

// DamageError says that the file does not hold what was written to it. The store
// refuses it as a whole; nothing was changed. Its Bucket is "history" or "meta", or
// empty when the damage is in a page that belongs to none or to an unknown one; its
// Record is "revision 42", "state" or "page 7".
type DamageError = boltfile.DamageError

// FormatError says that the file was written by another version of podfall.
type FormatError struct {
	Path          string
	Found, Wanted uint64
}

// Error names both versions.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format version %d; this podfall wants version %d", e.Path, e.Found, e.Wanted)
}

// CommitError says that the disk did not take a commit. What was in it may or may not
// be there after a restart; nothing of it was acknowledged or shown. The store takes
// no more writes.
type CommitError struct {
	// Revision is the last revision known to be on disk.
	Revision int64
	Err      error
}

// Error names the last revision that is safe.
func (e *CommitError) Error() string {
	return fmt.Sprintf("commit after revision %d: %v", e.Revision, e.Err)
}

// Unwrap is the disk's error.
func (e *CommitError) Unwrap() error { return e.Err }
