package store

import (
	"fmt"
	"strings"

	"github.com/podfall/podfall/proto/kinds"
)

// Key names one object. No two objects of a store share a key at one revision.
type Key struct {
	// Resource is the plural with its group: "pods", "deployments.apps".
	Resource string
	// Namespace is empty for cluster-scoped kinds.
	Namespace string
	Name      string
}

// Path returns the key's place among those of its resource, as Snapshot.Scan takes it:
// "namespace/name", or "/name" for cluster-scoped kinds.
func (k Key) Path() string { return k.Namespace + "/" + k.Name }

// String returns the key as messages print it: "pods web/front", "nodes node-1".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource + " " + k.Name
	}
	return k.Resource + " " + k.Path()
}

// Compare orders keys by resource, namespace and name, as lists do (WCH-14).
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Resource, other.Resource); c != 0 {
		return c
	}
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// Record is one version of one object. It is immutable, and so is its Object: many readers share
// it. To change an object, change a deep copy.
type Record struct {
	Key Key
	// Revision is the write that made this version. In a Deleted event it is the write that removed
	// the object.
	Revision int64
	// Object carries Revision as its resourceVersion.
	Object kinds.Object
	// Data is Object as kinds.Encode writes it, without the resourceVersion.
	Data []byte
}

// EventType says what a write did to its object.
type EventType uint8

// The types of events.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// String returns the type as watches spell it: "ADDED", "MODIFIED", "DELETED".
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is one write: the change of one object at one revision.
type Event struct {
	Revision int64
	Type     EventType
	// Record is the new version. In a Deleted event it is the last content under the revision of
	// the deletion (WCH-22).
	Record *Record
	// Previous is the version before; nil for Added.
	Previous *Record
	// Cause is the operation id of the commit.
	Cause string
}

// Expectations of a Write that name no revision.
const (
	// Absent expects that there is no such object: it creates.
	Absent int64 = 0
	// Previous expects the object as an earlier write of the same commit left it.
	Previous int64 = -1
	// Any expects nothing.
	Any int64 = -2
)

// Write is one change to one object.
type Write struct {
	Key Key
	// Expect is the revision that the caller read and decided on, or one of Absent, Previous and
	// Any.
	Expect int64
	// Object is the new content; nil deletes. The store owns it from the call of Commit on, and
	// clears its resourceVersion. After a *ConflictError the caller owns it again.
	Object kinds.Object
}

// Commit is a list of writes that happen together or not at all.
type Commit struct {
	Writes []Write
	// Cause is the id of the operation that asked for the commit, as EventsOfOperation finds it;
	// may be empty.
	Cause string
}
