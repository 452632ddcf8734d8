package history

import (
	"hash/crc32"
	"strconv"
)

// The events of reads, and of messages that are not requests.
const (
	NameOpRead        Name = "op.read"
	NameOpRefused     Name = "op.refused"
	NameWatchDelivery Name = "w.took"
	NameRelist        Name = "w.list"
)

// ReadOptions is what a read asks for.
type ReadOptions struct {
	// Revision is the requested resourceVersion, and Match the resourceVersionMatch.
	Revision string `json:"asked,omitempty"`
	Match    string `json:"match,omitempty"`
	Labels   string `json:"labels,omitempty"`
	Fields   string `json:"fields,omitempty"`
	// Limit is the maximum number of items of a page; 0 for no limit.
	Limit int64 `json:"limit,omitempty"`
	// ContinueAfter is namespace/name, or name, of the previous page's last item. ContinueRevision
	// is that page's revision, or -1 for any.
	ContinueAfter    string `json:"after,omitempty"`
	ContinueRevision int64  `json:"at,omitempty"`
	// SendInitialEvents is a watch's option; nil if not set.
	SendInitialEvents *bool `json:"initial,omitempty"`
	// AllowBookmarks is set for a watch that allows bookmarks.
	AllowBookmarks bool `json:"marks,omitempty"`
}

type (
	// OpRead is a get, a list or the opening of a watch, from arrival to answer. The event's cause
	// is the operation's id.
	OpRead struct {
		Identity string `json:"who"`
		Verb     string `json:"verb"`
		// Resource is the group resource.
		Resource string `json:"resource"`
		// Key is namespace/name, or name. For a list or a watch it is the namespace, empty for all.
		Key string `json:"key"`
		ReadOptions
		// Code is the HTTP status code. For a watch it is the code of the ERROR event, if any.
		Code int32 `json:"code"`
		// Revision is the resource version of the object or list, or where a watch joins the live
		// stream. For a watch that must ask for more, it is the revision of the last event. 0 for
		// none.
		Revision int64 `json:"rv,omitempty"`
		// Items counts the objects of a page, or the events sent before a watch joined, without
		// bookmarks and errors.
		Items int `json:"n,omitempty"`
		// Digest is the [Sum] of the items.
		Digest string `json:"sum,omitempty"`
		// More is set if a list has more pages, or a watch did not join.
		More bool `json:"more,omitempty"`
		// InitialEventsEnd is the revision of the bookmark that ends a watch's initial events; 0
		// for none.
		InitialEventsEnd int64 `json:"marked,omitempty"`
	}

	// OpRefused is a message to the apiserver that was not a valid request.
	OpRefused struct {
		// Subject is the bus subject, shortened.
		Subject string `json:"subject"`
		// Code is the HTTP status code of the answer.
		Code int32 `json:"code"`
		// Count is how many there were in this boot. The first hundred are recorded, then only
		// those at which the count has doubled.
		Count uint64 `json:"n"`
	}

	// WatchDelivery is what one watch has delivered to its consumer since its previous
	// WatchDelivery: every selected change after From up to To. If the consumer gets the state at
	// To first, From is 0.
	WatchDelivery struct {
		// Watch is the watch's number in its process. Resource to Fields are its scope.
		Watch     uint64 `json:"w"`
		Resource  string `json:"resource"`
		Namespace string `json:"namespace,omitempty"`
		Labels    string `json:"labels,omitempty"`
		Fields    string `json:"fields,omitempty"`
		From      int64  `json:"from"`
		To        int64  `json:"to"`
		Items     int    `json:"n"`
		// Digest is the [Sum] of the events.
		Digest string `json:"sum,omitempty"`
		// Code is the HTTP status code of the ERROR event that ends the watch; 0 for none.
		Code int32 `json:"code,omitempty"`
	}

	// Relist is a client-side copy that is replaced by a new list.
	Relist struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace,omitempty"`
		// From is the copy's previous revision, 0 for none. To is the list's revision.
		From int64 `json:"from,omitempty"`
		To   int64 `json:"to"`
	}
)

// Name implements Fact.
func (Relist) Name() Name { return NameRelist }

// Name implements Fact.
func (OpRead) Name() Name { return NameOpRead }

// Name implements Fact.
func (OpRefused) Name() Name { return NameOpRefused }

// Name implements Fact.
func (WatchDelivery) Name() Name { return NameWatchDelivery }

// Sum is a running checksum of objects or events in their order. One revision identifies one
// version of one object, so that hashing revisions is enough. The zero value is the sum of nothing.
type Sum struct {
	sum uint32
	// Count is the number of items added.
	Count int
}

// Add adds an event, or an object of a list with an empty event type.
func (s *Sum) Add(event string, revision int64) {
	s.Count++
	room := make([]byte, 0, 32)
	room = strconv.AppendInt(append(room, event...), revision, 10)
	s.sum = crc32.Update(s.sum, crc32.MakeTable(crc32.Castagnoli), append(room, ','))
}

// String returns the checksum; empty for no items.
func (s *Sum) String() string {
	if s.Count == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(s.sum), 36)
}
