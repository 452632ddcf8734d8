package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/podfall/podfall/internal/boltfile"
)

// Verified says what Verify found in a file.
type Verified struct {
	// Revision is that of the last write, and Objects counts the live objects.
	Revision int64
	Objects  int
}

// Verify checks a file as Open does, without changing it: its pages, the checksum of every record,
// that each change follows from those before it, that the changes add up to the objects in the
// counters, and that the counter is that of the last change. Its errors are those of Open. No other
// process may have the file open: ErrLocked otherwise.
func Verify(ctx context.Context, path string) (Verified, error) {
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, berrors.ErrTimeout) {
		return Verified{}, fmt.Errorf("verify %s: %w", path, ErrLocked)
	}
	if damage := boltfile.Check(path); damage != nil {
		return Verified{}, fmt.Errorf("verify: %w", closeAndJoin(db, damage))
	}
	if err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", path, err)
	}
	found, err := load(ctx, db)
	if err != nil { // load has closed it
		return Verified{}, fmt.Errorf("verify: %w", err)
	}
	verified := Verified{Revision: found.state.revision, Objects: found.tree.Len()}
	if err := db.Close(); err != nil {
		return Verified{}, fmt.Errorf("verify %s: %w", path, err)
	}
	return verified, nil
}
