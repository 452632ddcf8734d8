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

// Snapshot is the state of the cluster at one revision. It is immutable and may be
// kept and read by any number of goroutines; it costs the memory of what has changed
// since.
type Snapshot struct {
	revision int64
	tree     *tree
	begun    int64
}

// tree holds the live records by key. Copies share what neither has changed. Copying
// touches the original, so only one goroutine may copy a tree; reading does not.
type tree = btree.BTreeG[*Record]

func newTree() *tree {
	less := func(a, b *Record) bool { return a.Key.Compare(b.Key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// newRecord is obj as revision's version, its resourceVersion set.
func newRecord(key Key, revision int64, obj kinds.Object, data []byte) *Record {
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	return &Record{Key: key, Revision: revision, Object: obj, Data: data}
}

// gravestone is last under the revision that deleted it. Only the struct is copied:
// what it refers to is shared, because neither will ever change. A custom resource has its
// revision in a map, so all of it is copied.
func gravestone(last *Record, revision int64) *Record {
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

// Revision is the last write that the snapshot has.
func (s *Snapshot) Revision() int64 { return s.revision }

// Begun is when the transaction began that has made the snapshot, on the machine's
// monotonic clock; 0 for one of an earlier process.
func (s *Snapshot) Begun() int64 { return s.begun }

// Len is how many objects there are.
func (s *Snapshot) Len() int { return s.tree.Len() }

// Get is the object of that key, nil when there is none.
func (s *Snapshot) Get(key Key) *Record {
	record, _ := s.tree.Get(&Record{Key: key})
	return record
}

// Scan yields the objects of a resource by namespace and name (WCH-14): all of them
// when namespace is empty, and only those behind afterKey, a Key.Path, unless that is
// empty.
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

// Count is how many objects Scan would yield from the start. It walks them: about
// 10 ns each.
func (s *Snapshot) Count(resource, namespace string) int {
	n := 0
	for range s.Scan(resource, namespace, "") {
		n++
	}
	return n
}
