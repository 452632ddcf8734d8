package store

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
)

// Fact returns the event as a commit in the cluster's history.
func (e Event) Fact() history.Commit {
	fact := factOf(e.Record.Key, e.Type, e.Revision, e.Record.Object)
	if e.Previous != nil {
		fact.Previous = e.Previous.Revision
	}
	if e.Type != Deleted {
		fact.Object = history.Digest(e.Record.Data)
	}
	return fact
}

// factOf returns a commit of the cluster's history, without the digests that depend on the event's
// versions.
func factOf(key Key, typ EventType, revision int64, obj kinds.Object) history.Commit {
	name := key.Name
	if key.Namespace != "" {
		name = key.Namespace + "/" + name
	}
	fact := history.Commit{
		Revision: revision, Resource: key.Resource, Key: name, Op: typ.String(), UID: string(obj.GetUID()),
		Grace: obj.GetDeletionGracePeriodSeconds(),
	}
	if deadline := obj.GetDeletionTimestamp(); deadline != nil {
		fact.Deadline = &deadline.Time
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		fact.Node, fact.Phase = pod.Spec.NodeName, string(pod.Status.Phase)
	}
	fact.Content = contentOf(obj)
	return fact
}

// Export reads the commits in a store's file, oldest first, and the compaction behind them: the
// ground truth of what a cluster's apiserver has written. No other process may have the file open:
// ErrLocked otherwise. Every record's checksum is verified; the error for a damaged record is a
// *DamageError.
//
// The events have no monotonic time and no process, because the file has neither.
func Export(path string) ([]history.Event, error) {
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("export %s: %w", path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", path, err)
	}
	var events []history.Event
	err = db.View(func(tx *bbolt.Tx) error {
		kept, meta := tx.Bucket([]byte(bucketHistory)), tx.Bucket([]byte(bucketMeta))
		if kept == nil || meta == nil {
			return &DamageError{Path: path, Bucket: bucketHistory, Record: "the bucket", What: errMissing.Error()}
		}
		counters, err := parseState(meta.Get([]byte(keyState)))
		if err != nil {
			return &DamageError{Path: path, Bucket: bucketMeta, Record: keyState, What: err.Error()}
		}
		events = append(events, history.Event{Fact: history.Compact{Revision: counters.compacted}})
		return kept.ForEach(func(key, value []byte) error {
			event, err := exportEvent(kept, key, value)
			if err != nil {
				return &DamageError{Path: path, Bucket: bucketHistory, Record: fmt.Sprintf("%x", key), What: err.Error()}
			}
			events = append(events, event)
			return nil
		})
	})
	if err := closeAndJoin(db, err); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return events, nil
}

// exportEvent decodes one record. The content of a deletion is that of the version before.
func exportEvent(kept *bbolt.Bucket, key, value []byte) (history.Event, error) {
	e, err := parseEntry(key, value)
	if err != nil {
		return history.Event{}, err
	}
	content := e
	if e.typ == Deleted {
		before := revisionKey(e.previous)
		if content, err = parseEntry(before, kept.Get(before)); err != nil {
			return history.Event{}, fmt.Errorf("version %d, which it deletes: %w", e.previous, err)
		}
	}
	record, err := content.record()
	if err != nil {
		return history.Event{}, err
	}
	fact := factOf(e.key, e.typ, e.revision, record.Object)
	fact.Previous = e.previous
	if e.typ != Deleted {
		fact.Object = history.Digest(record.Data)
	}
	return history.Event{Wall: time.Unix(0, e.wall).UTC(), Cause: e.cause, Fact: fact}, nil
}
