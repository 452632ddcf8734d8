package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/podfall/podfall/internal/boltfile"
)

// ErrLocked is what Open answers while another process has the file open.
var ErrLocked = errors.New("another runtime has the store open")

// DamageError says that the file does not hold what was written to it. It is refused as
// a whole; nothing was changed.
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

// CommitError says that the disk did not take a commit. From Commit it means that nothing
// of it was acknowledged, and that it may be tried again unless Run has returned too:
// then what was in it may or may not be there after a restart.
type CommitError struct{ Err error }

// Error says that it was the runtime's store.
func (e *CommitError) Error() string { return fmt.Sprintf("commit to the runtime's store: %v", e.Err) }

// Unwrap is the disk's error.
func (e *CommitError) Unwrap() error { return e.Err }

// Open opens the store at cfg.Path, or makes a new one, and returns what it has on
// record. The file's structure and every record are verified before any of it is used.
func Open(cfg Config) (*Store, *Contents, error) {
	if cfg.History == 0 {
		cfg.History = defaultHistory
	}
	db, err := openFile(cfg)
	if err != nil {
		return nil, nil, err
	}
	contents := &Contents{byID: map[string]*Container{}}
	if err := db.View(func(tx *bbolt.Tx) error { return verify(tx, cfg.Path, contents) }); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	s := &Store{db: db, history: cfg.History, urgent: make(chan struct{}, 1), lazy: make(chan struct{}, 1)}
	return s, contents, nil
}

// openFile makes the file if need be, and opens it once it is known to be whole: bbolt
// trusts what it finds.
func openFile(cfg Config) (*bbolt.DB, error) {
	if _, err := os.Stat(cfg.Path); errors.Is(err, fs.ErrNotExist) {
		if err := create(cfg); err != nil {
			return nil, fmt.Errorf("make %s: %w", cfg.Path, err)
		}
	}
	reading := options(cfg)
	reading.ReadOnly = true // which takes the lock, and looks at the first two pages only
	db, err := bbolt.Open(cfg.Path, 0o600, reading)
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, openError(cfg.Path, err)
	}
	if damage := boltfile.Check(cfg.Path); damage != nil {
		if db != nil {
			damage = errors.Join(damage, db.Close())
		}
		return nil, damage
	}
	if err != nil {
		return nil, openError(cfg.Path, err)
	}
	if err := db.Close(); err != nil {
		return nil, openError(cfg.Path, err)
	}
	if db, err = bbolt.Open(cfg.Path, 0o600, options(cfg)); err != nil {
		return nil, openError(cfg.Path, err)
	}
	return db, nil
}

func options(cfg Config) *bbolt.Options {
	return &bbolt.Options{
		Timeout: lockWait,
		NoSync:  cfg.NoSync, NoGrowSync: cfg.NoSync,
		// Free pages are found at the start instead of written with each commit.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
	}
}

// openError says in our words why bbolt cannot open the file.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return fmt.Errorf("open %s: %w", path, ErrLocked)
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrChecksum),
		errors.Is(err, bbolterrors.ErrVersionMismatch):
		return &DamageError{Path: path, Record: "the file", What: err.Error()}
	default:
		return fmt.Errorf("open %s: %w", path, err)
	}
}

// create makes an empty store beside the path and moves it there when it is whole, so
// that a crash on the way leaves none.
func create(cfg Config) error {
	draft := cfg.Path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(draft, 0o600, options(cfg))
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		format, whole := put(bucketMeta, keyFormat, binary.BigEndian.AppendUint64(nil, formatVersion)), whole(tx.ID(), 0)
		return errors.Join(meta.Put([]byte(format.key), format.value), meta.Put([]byte(whole.key), whole.value))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, cfg.Path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(cfg.Path))
	if err != nil {
		return err
	}
	if cfg.NoSync {
		return dir.Close()
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// verify reads every record, and sees that they are all there.
func verify(tx *bbolt.Tx, path string, contents *Contents) error {
	var all tally
	for _, name := range buckets() {
		bucket := tx.Bucket([]byte(name))
		if bucket == nil {
			return &DamageError{Path: path, Record: name, What: "the bucket is missing"}
		}
		if name == bucketMeta {
			if err := verifyFormat(bucket, path); err != nil {
				return err
			}
		}
		if err := bucket.ForEach(func(key, value []byte) error {
			if err := contents.read(name, string(key), value); err != nil {
				return &DamageError{Path: path, Record: name + " " + printable(name, key), What: err.Error()}
			}
			if name != bucketMeta {
				all.add(value)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	transaction, want, err := readWhole(tx.Bucket([]byte(bucketMeta)).Get([]byte(keyWhole)))
	if err == nil && (transaction != tx.ID() || want != all) {
		err = errWhole
	}
	if err != nil {
		return &DamageError{Path: path, Record: "the file", What: err.Error()}
	}
	return nil
}

func verifyFormat(meta *bbolt.Bucket, path string) error {
	body, err := unseal(bucketMeta, keyFormat, meta.Get([]byte(keyFormat)))
	if err == nil && len(body) != 8 {
		err = errShape
	}
	if err != nil {
		return &DamageError{Path: path, Record: "meta format", What: err.Error()}
	}
	if found := binary.BigEndian.Uint64(body); found != formatVersion {
		return &FormatError{Path: path, Found: found, Wanted: formatVersion}
	}
	return nil
}

// printable is a key as a person reads it.
func printable(bucket string, key []byte) string {
	if bucket == bucketHistory && len(key) == 8 {
		return fmt.Sprint(binary.BigEndian.Uint64(key))
	}
	return strings.ReplaceAll(string(key), separator, " ")
}
