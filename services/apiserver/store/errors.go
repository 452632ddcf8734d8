package store

import (
	"errors"
	"fmt"

	"github.com/podfall/podfall/internal/boltfile"
)

var (
	// ErrConflict is wrapped by every *ConflictError.
	ErrConflict = errors.New("the object is not as the write expects it")
	// ErrCompacted is wrapped by every *CompactedError.
	ErrCompacted = errors.New("the revision has been compacted")
	// ErrFuture is returned by At and Compact for a revision that the store has not reached.
	ErrFuture = errors.New("the revision is in the future")
	// ErrLocked is returned by Open while another process has the file open.
	ErrLocked = errors.New("another process has the store open")
	// ErrStopped is returned by Commit, Compact and WaitFor once Run has returned.
	ErrStopped = errors.New("the store has stopped")
	// ErrCommitTimeout is returned by Commit, with the context's cause behind it, if the caller's
	// context ended before the store had written.
	ErrCommitTimeout = errors.New("the store has not written in time")
	// ErrInvalid is returned by Commit for a write that no store can hold: a key with an empty or
	// oversized part, an object beyond MaxObject, Previous without an earlier write.
	ErrInvalid = errors.New("invalid write")
)

// ConflictError says that an object has another version than a write expects. Nothing of the commit
// was written.
type ConflictError struct {
	Key    Key
	Expect int64
	// Have is the stored object; nil if there is none.
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

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// CompactedError says that the history no longer reaches back to a revision.
type CompactedError struct {
	Revision int64
	// Oldest is the first revision whose event is still in the history. The state at Oldest-1 is
	// the oldest that can be read.
	Oldest int64
}

// Error names the requested and the oldest revision.
func (e *CompactedError) Error() string {
	return fmt.Sprintf("revision %d: the history starts at %d", e.Revision, e.Oldest)
}

// Unwrap returns ErrCompacted.
func (e *CompactedError) Unwrap() error { return ErrCompacted }

// DamageError says that the file does not hold what was written to it. The store refuses the whole
// file and changes nothing. Bucket is "history" or "meta", or empty if the damage is in a page that
// belongs to no bucket or to an unknown one. Record is "revision 42", "state" or "page 7".
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

// CommitError says that the disk did not take a commit. The writes of that commit may or may not be
// there after a restart; none of them was acknowledged or shown. The store takes no more writes.
type CommitError struct {
	// Revision is the last revision known to be on disk.
	Revision int64
	Err      error
}

// Error names the last revision that is known to be on disk.
func (e *CommitError) Error() string {
	return fmt.Sprintf("commit after revision %d: %v", e.Revision, e.Err)
}

// Unwrap returns the disk's error.
func (e *CommitError) Unwrap() error { return e.Err }
