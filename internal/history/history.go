// Package history is what a cluster's processes write down of what they do, so that
// people and checkers can see afterwards what happened, across processes and in order.
//
//	facts.go      what events are called, and those of controllers, of users and of the
//	              history itself: a type for each
//	apiserver.go  those of requests, of the store and of watches
//	reads.go      those of reads and of copies
//	node.go       those of kubelets and runtimes
//	trouble.go    those of what is broken on purpose
//	stall.go      that of a process that stood still, and who notices
//	decode.go     which type each name has
//	recorder.go   a process writes its events, one JSON object a line
//	writer.go     writes what several processes have noted elsewhere, as a simulated life
//	reader.go     reads what processes have written, and puts it in one order
//	page.go       reads what one process has written, a piece at a time
//
// # Order
//
// Every event carries the machine's monotonic clock before and after the action, which
// is the same for all processes of a machine, and a number that its process counts
// without gaps, so that a line that is missing is noticed.
//
// # What is on disk when
//
// An event is written to the file, without an fsync, before Record returns: the end of
// the process loses none, a power cut may lose the last ones. A write that the end of
// the process has cut short leaves half a line, which readers leave out and count. The
// store's own log is the ground truth of commits; see the apiserver's store.Export.
package history

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/podfall/podfall/proto"
)

// Event is something that a process did or saw (docs/dev/guarantees.md).
type Event struct {
	// Sequence numbers the events of one boot of one process without gaps, from 1.
	Sequence uint64
	// Process is the process's name: apiserver, kubelet/node-1.
	Process string
	Boot    proto.Boot
	// Began and Ended are the machine's monotonic clock in nanoseconds before and after
	// the action; see clock.Monotonic.
	Began, Ended int64
	// Wall is the cluster's time at the end of the action.
	Wall time.Time
	// Cause is the operation that the event is part of; empty when none is known.
	Cause string
	Fact  Fact
}

// Fact is what an event says has happened: one of the types in this package.
type Fact interface {
	// Name is the event's, as docs/dev/guarantees.md calls it.
	Name() Name
}

// line is an Event as it is in a file.
type line struct {
	Sequence uint64          `json:"seq"`
	Process  string          `json:"proc"`
	Boot     proto.Boot      `json:"boot,omitempty"`
	Began    int64           `json:"t0"`
	Ended    int64           `json:"t1"`
	Wall     time.Time       `json:"wall"`
	Name     Name            `json:"event"`
	Cause    string          `json:"cause,omitempty"`
	Fact     json.RawMessage `json:"fact,omitempty"`
}

// MarshalJSON is the event as one line of a file says it.
func (e Event) MarshalJSON() ([]byte, error) { return e.append(nil) }

// append adds the event's JSON to data. It is written by hand, because it is written for
// every change of every object.
func (e Event) append(data []byte) ([]byte, error) {
	fact, err := json.Marshal(e.Fact)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Fact.Name(), err)
	}
	data = append(data, `{"seq":`...)
	data = strconv.AppendUint(data, e.Sequence, 10)
	data = appendText(data, `,"proc":`, e.Process)
	if e.Boot != "" {
		data = appendText(data, `,"boot":`, string(e.Boot))
	}
	data = append(data, `,"t0":`...)
	data = strconv.AppendInt(data, e.Began, 10)
	data = append(data, `,"t1":`...)
	data = strconv.AppendInt(data, e.Ended, 10)
	data = append(data, `,"wall":"`...)
	data = e.Wall.UTC().AppendFormat(data, time.RFC3339Nano)
	data = appendText(data, `","event":`, string(e.Fact.Name()))
	if e.Cause != "" {
		data = appendText(data, `,"cause":`, e.Cause)
	}
	if string(fact) != "null" {
		data = append(append(data, `,"fact":`...), fact...)
	}
	return append(data, '}'), nil
}

// appendText adds a field, whose text may hold anything.
func appendText(data []byte, field, text string) []byte {
	data = append(data, field...)
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a string has a form in JSON
			return append(data, quoted...)
		}
	}
	data = append(data, '"')
	data = append(data, text...)
	return append(data, '"')
}

// UnmarshalJSON reads what MarshalJSON has written. A fact of a name that this release
// does not know becomes an Other.
func (e *Event) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	if l.Sequence == 0 || l.Process == "" || l.Name == "" {
		return fmt.Errorf("want an event with seq, proc and event, not %.80q", data)
	}
	fact, err := decode(l.Name, l.Fact)
	if err != nil {
		return fmt.Errorf("fact of %s: %w", l.Name, err)
	}
	*e = Event{
		Sequence: l.Sequence, Process: l.Process, Boot: l.Boot, Began: l.Began, Ended: l.Ended, Wall: l.Wall,
		Cause: l.Cause, Fact: fact,
	}
	return nil
}
