package history

import (
	"hash/crc32"
	"strconv"
)

// The events of reads, and of what was never a request.
const (
	NameLookup  Name = "op.read"
	NameRefused Name = "op.refused"
	NameTook    Name = "w.took"
	NameCopied  Name = "w.list"
)

// Asked is what a read asks for.
type Asked struct {
	// Revision is the resourceVersion as it was written, and Match its resourceVersionMatch.
	Revision string `json:"asked,omitempty"`
	Match    string `json:"match,omitempty"`
	Labels   string `json:"labels,omitempty"`
	Fields   string `json:"fields,omitempty"`
	// Limit is the greatest number of items of a page; 0 for none.
	Limit int64 `json:"limit,omitempty"`
	// After is namespace/name, or name, of the last item of the page before, At the
	// revision of that page, or -1 for any.
	After string `json:"after,omitempty"`
	At    int64  `json:"at,omitempty"`
	// Initial is a watch's sendInitialEvents; nil when it does not say.
	Initial *bool `json:"initial,omitempty"`
	// Marks is a watch that allows bookmarks.
	Marks bool `json:"marks,omitempty"`
}

type (
	// Lookup is a get, a list or the opening of a watch, from its coming to its answer; the
	// event's cause is the operation's id.
	Lookup struct {
		Who  string `json:"who"`
		Verb string `json:"verb"`
		// Resource is the group resource.
		Resource string `json:"resource"`
		// Key is namespace/name, or name; of a list or a watch the namespace, empty for all.
		Key string `json:"key"`
		Asked
		// Code is the HTTP status code: of a watch that of the ERROR that it was sent, if any.
		Code int32 `json:"code"`
		// Revision is the object's, the list's, or that at which a watch joins the live
		// stream; of one that is still to ask for more it is that of its last event. 0 for none.
		Revision int64 `json:"rv,omitempty"`
		// Items is how many objects a page has, or how many events a watch was sent before
		// it joined; bookmarks and errors are not counted.
		Items int `json:"n,omitempty"`
		// Digest is the Sum of the items.
		Digest string `json:"sum,omitempty"`
		// More says that a list goes on, or that a watch did not join.
		More bool `json:"more,omitempty"`
		// Marked is the revision of the bookmark that ends a watch's initial events; 0 for none.
		Marked int64 `json:"marked,omitempty"`
	}

	// Refused is what came to the apiserver and was no request.
	Refused struct {
		// Subject is where it was sent to, shortened.
		Subject string `json:"subject"`
		// Code is the HTTP status code of the answer.
		Code int32 `json:"code"`
		// Count is how many there have been in this boot. The first hundred are recorded, and
		// then those at which the count has doubled.
		Count uint64 `json:"n"`
	}

	// Took is what one watch has handed to its consumer since it last said so: every change
	// that it selects after From up to To. A consumer that is given what there is at To
	// begins there: From is 0.
	Took struct {
		// Watch is the watch's number in its process, and Resource to Fields its scope.
		Watch     uint64 `json:"w"`
		Resource  string `json:"resource"`
		Namespace string `json:"namespace,omitempty"`
		Labels    string `json:"labels,omitempty"`
		Fields    string `json:"fields,omitempty"`
		From      int64  `json:"from"`
		To        int64  `json:"to"`
		Items     int    `json:"n"`
		// Digest is the Sum of the events.
		Digest string `json:"sum,omitempty"`
		// Code is the HTTP status code of the ERROR that ends the watch; 0 for none.
		Code int32 `json:"code,omitempty"`
	}

	// Copied is a copy of what is selected that begins anew with a list.
	Copied struct {
		Resource  string `json:"resource"`
		Namespace string `json:"namespace,omitempty"`
		// From is the revision that the copy had come to, 0 for none, and To the list's.
		From int64 `json:"from,omitempty"`
		To   int64 `json:"to"`
	}
)

// Name implements Fact.
func (Copied) Name() Name { return NameCopied }

// Name implements Fact.
func (Lookup) Name() Name { return NameLookup }

// Name implements Fact.
func (Refused) Name() Name { return NameRefused }

// Name implements Fact.
func (Took) Name() Name { return NameTook }

// Sum is a short mark of a row of objects or events, in their order. A revision is one
// version of one object, so that revisions say all. The zero value is that of none.
type Sum struct {
	sum uint32
	// Count is how many were added.
	Count int
}

// Add adds an object of a list, of the type "", or an event.
func (s *Sum) Add(event string, revision int64) {
	s.Count++
	room := make([]byte, 0, 32)
	room = strconv.AppendInt(append(room, event...), revision, 10)
	s.sum = crc32.Update(s.sum, crc32.MakeTable(crc32.Castagnoli), append(room, ','))
}

// String is the mark; empty for none.
func (s *Sum) String() string {
	if s.Count == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(s.sum), 36)
}
