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

// ErrLocked is returned by Open while another process has the file open.
var ErrLocked = errors.New("another runtime has the store open")

// DamageError reports a file with unexpected content. The file is refused as a whole and left
// unchanged.
type DamageError = boltfile.DamageError

// FormatError reports a file that another version of podfall has written.
type FormatError struct {
	Path          string
	Found, Wanted uint64
}

// Error names both versions.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format version %d; this podfall wants version %d", e.Path, e.Found, e.Wanted)
}

// CommitError reports that the disk refused a commit. From Commit it means that nothing was
// acknowledged and that the caller may retry, unless Run has returned too. Then the changes may or
// may not exist after a restart.
type CommitError struct{ Err error }

// Error implements error.
func (e *CommitError) Error() string { return fmt.Sprintf("commit to the runtime's store: %v", e.Err) }

// Unwrap returns the disk's error.
func (e *CommitError) Unwrap() error { return e.Err }

// Open opens or creates the store at cfg.Path and returns its records. It verifies the file's
// structure and every record before any of it is used.
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

// openFile creates the file if it is missing, checks its structure, and opens it. The check comes
// first because bbolt does not verify what it reads.
func openFile(cfg Config) (*bbolt.DB, error) {
	if _, err := os.Stat(cfg.Path); errors.Is(err, fs.ErrNotExist) {
		if err := createFile(cfg); err != nil {
			return nil, fmt.Errorf("make %s: %w", cfg.Path, err)
		}
	}
	reading := boltOptions(cfg)
	reading.ReadOnly = true // takes the lock and reads only the first two pages
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
	if db, err = bbolt.Open(cfg.Path, 0o600, boltOptions(cfg)); err != nil {
		return nil, openError(cfg.Path, err)
	}
	return db, nil
}

func boltOptions(cfg Config) *bbolt.Options {
	return &bbolt.Options{
		Timeout: lockWait,
		NoSync:  cfg.NoSync, NoGrowSync: cfg.NoSync,
		// Free pages are found at open instead of written with each commit.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
	}
}

// openError translates bbolt's open errors.
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

// createFile creates an empty store next to the path and renames it when complete, so that a crash
// leaves no partial store.
func createFile(cfg Config) error {
	draft := cfg.Path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(draft, 0o600, boltOptions(cfg))
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
		format, whole := put(bucketMeta, keyFormat, binary.BigEndian.AppendUint64(nil, formatVersion)), putTally(tx.ID(), 0)
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

// verify reads every record and checks that none is missing.
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
			if err := contents.readRecord(name, string(key), value); err != nil {
				return &DamageError{Path: path, Record: name + " " + formatKey(name, key), What: err.Error()}
			}
			if name != bucketMeta {
				all.add(value)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	transaction, want, err := readTally(tx.Bucket([]byte(bucketMeta)).Get([]byte(keyTally)))
	if err == nil && (transaction != tx.ID() || want != all) {
		err = errTally
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

// formatKey returns a key for messages.
func formatKey(bucket string, key []byte) string {
	if bucket == bucketHistory && len(key) == 8 {
		return fmt.Sprint(binary.BigEndian.Uint64(key))
	}
	return strings.ReplaceAll(string(key), separator, " ")
}
