package store

import (
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podfall/podfall/proto/kinds"
)

// Snapshot is the state of the cluster at one revision. It is immutable and may be kept and read by
// any number of goroutines. It costs the memory of what has changed since.
type Snapshot struct {
	revision int64
	tree     *tree
	txBegan  int64
}

// tree holds the live records by key. Copies share nodes until either is changed. Copying touches
// the original, so only one goroutine may copy a tree; reading does not.
type tree = btree.BTreeG[*Record]

func newTree() *tree {
	less := func(a, b *Record) bool { return a.Key.Compare(b.Key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// newRecord returns obj as the version at revision, with its resourceVersion set.
func newRecord(key Key, revision int64, obj kinds.Object, data []byte) *Record {
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	return &Record{Key: key, Revision: revision, Object: obj, Data: data}
}

// tombstone returns last under the revision that deleted it. Only the struct is copied: the data
// that it refers to is shared, because neither copy will ever change. A custom resource has its
// resourceVersion in a map, so all of it is copied.
func tombstone(last *Record, revision int64) *Record {
	if custom, ok := last.Object.(*unstructured.Unstructured); ok {
		return newRecord(last.Key, revision, custom.DeepCopy(), last.Data)
	}
	copied := reflect.New(reflect.TypeOf(last.Object).Elem())
	copied.Elem().Set(reflect.ValueOf(last.Object).Elem())
	obj, ok := reflect.TypeAssert[kinds.Object](copied)
	if !ok {
		panic("a copy is of another type than its original")
	}
	return newRecord(last.Key, revision, obj, last.Data)
}

// Revision is the revision of the last write in the snapshot.
func (s *Snapshot) Revision() int64 { return s.revision }

// TxBegan is the start of the transaction that made the snapshot, in nanoseconds of the machine's
// monotonic clock; 0 for a snapshot of an earlier process.
func (s *Snapshot) TxBegan() int64 { return s.txBegan }

// Len returns the number of objects.
func (s *Snapshot) Len() int { return s.tree.Len() }

// Get returns the object of a key; nil if there is none.
func (s *Snapshot) Get(key Key) *Record {
	record, _ := s.tree.Get(&Record{Key: key})
	return record
}

// Scan yields the objects of a resource, ordered by namespace and name (WCH-14). An empty namespace
// means all. If afterKey, a Key.Path, is not empty, only the objects behind it are yielded.
func (s *Snapshot) Scan(resource, namespace, afterKey string) iter.Seq[*Record] {
	from := Key{Resource: resource, Namespace: namespace}
	after := Key{Resource: resource}
	if afterKey != "" {
		after.Namespace, after.Name, _ = strings.Cut(afterKey, "/")
		if from.Compare(after) < 0 {
			from = after
		}
	}
	return func(yield func(*Record) bool) {
		s.tree.Ascend(&Record{Key: from}, func(r *Record) bool {
			if r.Key.Resource != resource || namespace != "" && r.Key.Namespace != namespace {
				return false
			}
			if afterKey != "" && r.Key.Compare(after) <= 0 {
				return true
			}
			return yield(r)
		})
	}
}

// Count returns how many objects Scan would yield from the start. It walks them: about 10 ns each.
func (s *Snapshot) Count(resource, namespace string) int {
	n := 0
	for range s.Scan(resource, namespace, "") {
		n++
	}
	return n
}
