package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podfall/podfall/internal/boltfile"
)

// initialMap is how much address space the file gets at once. Growing the map stops readers and the
// writer.
const initialMap = 256 << 20

var errMissing = errors.New("missing")

// openFile creates the file if it is missing, verifies its pages, and opens it.
//
// bbolt trusts pages and panics over bad ones, partly on goroutines of its own. So openFile
// verifies the pages before bbolt looks at them, under bbolt's lock.
func openFile(cfg Config) (*bbolt.DB, error) {
	if _, err := os.Stat(cfg.Path); errors.Is(err, fs.ErrNotExist) {
		if err := createFile(cfg); err != nil {
			return nil, fmt.Errorf("create %s: %w", cfg.Path, err)
		}
	}
	readOnly := bboltOptions(cfg)
	readOnly.ReadOnly = true
	readOnly.InitialMmapSize = 0
	reading, err := bbolt.Open(cfg.Path, 0, readOnly)
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", cfg.Path, ErrLocked)
	}
	if damage := boltfile.Check(cfg.Path); damage != nil {
		return nil, closeAndJoin(reading, damage)
	}
	if err := closeAndJoin(reading, err); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	var db *bbolt.DB
	err = newFuse().guard(cfg.Path, func() (err error) {
		db, err = bbolt.Open(cfg.Path, 0o600, bboltOptions(cfg))
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", cfg.Path, ErrLocked)
	}
	return db, err
}

func bboltOptions(cfg Config) *bbolt.Options {
	return &bbolt.Options{
		Timeout: cfg.LockTimeout,
		NoSync:  cfg.NoSync,
		// The list of free pages is worked out at the start instead of written with each
		// commit, and kept as a map: both take time that grows with the file otherwise.
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: initialMap,
		NoStatistics:    true,
	}
}

// createFile makes an empty store beside the path and links it to its name when it is complete. So
// a crash on the way leaves no store, and no other process's file is overwritten.
func createFile(cfg Config) error {
	draft := cfg.Path + ".new"
	if err := clearDraft(draft); err != nil {
		return err
	}
	db, err := bbolt.Open(draft, 0o600, bboltOptions(cfg))
	if errors.Is(err, berrors.ErrTimeout) {
		return ErrLocked
	}
	if err != nil {
		return err
	}
	uid := cfg.ClusterUID
	if uid == "" {
		uid = uuid.NewUUID()
	}
	err = db.Update(func(tx *bbolt.Tx) error { return writeEmptyStore(tx, uid) })
	if err := closeAndJoin(db, err); err != nil {
		return err
	}
	if err := os.Link(draft, cfg.Path); err != nil {
		// Another process may have been faster: then the draft is there under its name,
		// or gone.
		if _, there := os.Stat(cfg.Path); there != nil {
			return err
		}
	}
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if cfg.NoSync {
		return nil
	}
	dir, err := os.Open(filepath.Dir(cfg.Path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// clearDraft empties a draft that a crash has left incomplete, because bbolt would trust it. If
// another process is writing the draft, it holds bbolt's lock, and clearDraft leaves the draft
// alone.
func clearDraft(draft string) error {
	file, err := os.OpenFile(draft, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err == nil && errors.As(boltfile.Check(draft), new(*DamageError)) {
		err = file.Truncate(0)
	}
	return err
}

// writeEmptyStore writes the buckets and counters of an empty store. It does nothing if another
// process has written them since the file was opened, because that store may be in use by now under
// its other name.
func writeEmptyStore(tx *bbolt.Tx, uid types.UID) error {
	if tx.Bucket([]byte(bucketMeta)) != nil {
		return nil
	}
	for _, name := range []string{bucketMeta, bucketHistory} {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	meta := tx.Bucket([]byte(bucketMeta))
	format := binary.BigEndian.AppendUint64(make([]byte, sumSize), formatVersion)
	seal([]byte(keyFormat), format)
	cluster := append(make([]byte, sumSize), uid...)
	seal([]byte(keyCluster), cluster)
	counters := state{revision: firstRevision, compacted: firstRevision, swept: firstRevision}
	return errors.Join(
		meta.Put([]byte(keyFormat), format),
		meta.Put([]byte(keyCluster), cluster),
		meta.Put([]byte(keyState), counters.encode()),
	)
}

// closeAndJoin closes db, which may be nil, and joins the error of closing to err.
func closeAndJoin(db *bbolt.DB, err error) error {
	if db == nil {
		return err
	}
	return errors.Join(err, db.Close())
}

// contents is what load found in a file.
type contents struct {
	uid    types.UID
	state  state
	tree   *tree
	causes *causes
	// live maps each object to its revision, folded from the history read so far.
	live map[Key]int64
	path string
}

// load reads and verifies the whole file. If load fails, it has closed db.
func load(ctx context.Context, db *bbolt.DB) (*contents, error) {
	c := &contents{
		tree:   newTree(),
		causes: &causes{first: map[string]int64{}, more: map[string][]int64{}},
		live:   map[Key]int64{},
		path:   db.Path(),
	}
	f := newFuse()
	err := f.guard(c.path, func() error {
		return db.View(func(tx *bbolt.Tx) error {
			if err := c.loadMeta(tx.Bucket([]byte(bucketMeta))); err != nil {
				return err
			}
			history := tx.Bucket([]byte(bucketHistory))
			if history == nil {
				return c.damage(bucketHistory, "the bucket", errMissing)
			}
			if err := c.loadHistory(ctx, history); err != nil {
				return err
			}
			return c.loadObjects(ctx, history)
		})
	})
	if err != nil && !f.isBlown() {
		err = closeAndJoin(db, err)
	}
	return c, err
}

func (c *contents) damage(bucket, record string, what error) error {
	return &DamageError{Path: c.path, Bucket: bucket, Record: record, What: what.Error()}
}

func (c *contents) loadMeta(meta *bbolt.Bucket) error {
	if meta == nil {
		return c.damage(bucketMeta, "the bucket", errMissing)
	}
	get := func(key string) ([]byte, error) {
		value := meta.Get([]byte(key))
		if value == nil {
			return nil, c.damage(bucketMeta, key, errMissing)
		}
		payload, err := unseal([]byte(key), value)
		if err != nil {
			return nil, c.damage(bucketMeta, key, err)
		}
		return payload, nil
	}
	format, err := get(keyFormat)
	if err != nil {
		return err
	}
	if len(format) != 8 {
		return c.damage(bucketMeta, keyFormat, errShape)
	}
	if found := binary.BigEndian.Uint64(format); found != formatVersion {
		return &FormatError{Path: c.path, Found: found, Wanted: formatVersion}
	}
	uid, err := get(keyCluster)
	if err != nil {
		return err
	}
	c.uid = types.UID(uid)
	if c.state, err = parseState(meta.Get([]byte(keyState))); err != nil {
		return c.damage(bucketMeta, keyState, err)
	}
	return nil
}

// loadHistory verifies every event, and that each event follows from those before it.
func (c *contents) loadHistory(ctx context.Context, history *bbolt.Bucket) error {
	next := c.state.swept + 1
	err := history.ForEach(func(key, value []byte) error {
		e, err := parseEntry(key, value)
		if err != nil {
			return c.damage(bucketHistory, revisionName(key), err)
		}
		if e.revision%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.revision <= c.state.swept {
			if _, twice := c.live[e.key]; twice || e.typ == Deleted {
				return revisionDamage(c.path, e.revision, errors.New("swept, but still there"))
			}
			c.live[e.key] = e.revision
			return nil
		}
		if e.revision != next {
			return revisionDamage(c.path, next, errMissing)
		}
		next++
		return c.fold(e)
	})
	if err != nil {
		return err
	}
	if next != c.state.revision+1 {
		return revisionDamage(c.path, min(next, c.state.revision+1),
			fmt.Errorf("the last revision should be %d", c.state.revision))
	}
	return nil
}

// fold applies an event to the map of live revisions.
func (c *contents) fold(e entry) error {
	if have := c.live[e.key]; have != e.previous {
		return revisionDamage(c.path, e.revision,
			fmt.Errorf("%s: it replaces revision %d, but there is %d", e.key, e.previous, have))
	}
	if e.typ == Deleted {
		delete(c.live, e.key)
	} else {
		c.live[e.key] = e.revision
	}
	if e.revision > c.state.swept {
		c.causes.add(e.cause, e.revision)
	}
	return nil
}

// loadObjects verifies that history leads to the number of objects and the digest in the counters,
// and decodes the live objects.
func (c *contents) loadObjects(ctx context.Context, history *bbolt.Bucket) error {
	var have state
	for key, revision := range c.live {
		have.add(key, revision)
	}
	if have.objects != c.state.objects || have.digest != c.state.digest {
		return c.damage(bucketHistory, fmt.Sprintf("versions up to revision %d", c.state.swept),
			fmt.Errorf("they lead to %d objects with digest %x, not %d with %x",
				have.objects, have.digest, c.state.objects, c.state.digest))
	}
	r := &reader{path: c.path, history: history}
	for _, key := range slices.SortedFunc(maps.Keys(c.live), Key.Compare) {
		e, err := r.entry(c.live[key])
		if err != nil {
			return err
		}
		record, err := e.record()
		if err != nil {
			return revisionDamage(c.path, e.revision, err)
		}
		c.tree.Load(record)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	c.live = nil
	return nil
}

func revisionName(key []byte) string {
	if len(key) != 8 {
		return fmt.Sprintf("key %.80x", key)
	}
	return fmt.Sprintf("revision %d", binary.BigEndian.Uint64(key))
}
