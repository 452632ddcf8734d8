package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// ErrLocked is what Open answers while another process has the file open.
var ErrLocked = errors.New("another runtime has the store open")

// DamageError says that the file does not hold what was written to it. It is refused
// as a whole.
type DamageError struct {
	Path string
	// Record names what is damaged: "containers 4f2a…", "the file".
	Record string
	// What is wrong with it.
	What string
}

// Error names the file, the record and the damage.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged: %s: %s", e.Path, e.Record, e.What)
}

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
// be there after a restart; nothing of it was acknowledged.
type CommitError struct{ Err error }

// Error says that it was the runtime's store.
func (e *CommitError) Error() string { return fmt.Sprintf("commit to the runtime's store: %v", e.Err) }

// Unwrap is the disk's error.
func (e *CommitError) Unwrap() error { return e.Err }

// Open opens the store at cfg.Path, or makes a new one, and returns what it has on
// record, every record of it verified.
func Open(cfg Config) (store *Store, contents *Contents, err error) {
	if cfg.History == 0 {
		cfg.History = defaultHistory
	}
	// Damage can send bbolt anywhere in its mapping of the file.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if wild := recover(); wild != nil {
			store, contents, err = nil, nil, &DamageError{Path: cfg.Path, Record: "the file", What: fmt.Sprint(wild)}
		}
	}()
	db, err := bbolt.Open(cfg.Path, 0o600, &bbolt.Options{
		Timeout: lockWait, NoSync: cfg.NoSync, NoGrowSync: cfg.NoSync, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, nil, openError(cfg.Path, err)
	}
	contents = &Contents{byID: map[string]*Container{}}
	if err := read(db, cfg.Path, contents); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	s := &Store{db: db, history: cfg.History, urgent: make(chan struct{}, 1), lazy: make(chan struct{}, 1)}
	return s, contents, nil
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

// read makes a new file a store, and verifies an old one.
func read(db *bbolt.DB, path string, contents *Contents) error {
	fresh := false
	if err := db.View(func(tx *bbolt.Tx) error {
		if info, err := os.Stat(path); err == nil && info.Size() < tx.Size() {
			return &DamageError{Path: path, Record: "the file", What: "it ends too early"}
		}
		first, _ := tx.Cursor().First()
		fresh = first == nil
		return nil
	}); err != nil {
		return err
	}
	if fresh {
		return create(db)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if err := verify(tx, path, contents); err != nil {
			return err
		}
		var damage error
		for err := range tx.Check() { // to its end: it must not be left waiting
			if damage == nil {
				damage = &DamageError{Path: path, Record: "the file", What: err.Error()}
			}
		}
		return damage
	})
}

func create(db *bbolt.DB) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		format := put(bucketMeta, keyFormat, binary.BigEndian.AppendUint64(nil, formatVersion))
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(format.key), format.value)
	})
	if err != nil {
		return fmt.Errorf("make the runtime's store: %w", err)
	}
	return nil
}

// verify reads every record.
func verify(tx *bbolt.Tx, path string, contents *Contents) error {
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
			return nil
		}); err != nil {
			return err
		}
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
