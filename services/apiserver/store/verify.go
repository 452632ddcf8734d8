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

// Verified is what a file was found to hold.
type Verified struct {
	// Revision is the last, and Objects is how many live ones there are.
	Revision int64
	Objects  int
}

// Verify puts a file to all tests of Open, without changing it: its pages, the checksum of
// every record, that each change follows from those before it, that they add up to the
// objects that there are to be, and that the counter is that of the last. Its errors are
// those of Open. The file must be in no other process's hands: ErrLocked otherwise.
func Verify(ctx context.Context, path string) (Verified, error) {
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, berrors.ErrTimeout) {
		return Verified{}, fmt.Errorf("verify %s: %w", path, ErrLocked)
	}
	if damage := boltfile.Check(path); damage != nil {
		return Verified{}, fmt.Errorf("verify: %w", closing(db, damage))
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
