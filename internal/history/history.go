// Package history records what the processes of a cluster do, so that people and checkers can later
// see what happened, across processes and in order.
//
//	facts.go      event names, and the facts of controllers, users and the history itself
//	apiserver.go  facts of requests, the store and watches
//	reads.go      facts of reads and of client-side copies
//	node.go       facts of kubelets and runtimes
//	trouble.go    facts of injected faults
//	stall.go      facts of processes that stood still, and their detection
//	decode.go     maps each event name to its type
//	recorder.go   writes the events of a process, one JSON object a line
//	writer.go     writes events that were collected elsewhere, for example in a simulated run
//	reader.go     reads the files of all processes and merges them into one order
//	page.go       reads the files of one process page by page
//
// # Order
//
// Every event carries the machine's monotonic clock before and after the action. All processes of a
// machine share that clock. Each process also numbers its events without gaps, so that readers
// notice missing lines.
//
// # Durability
//
// An event is written to the file, without an fsync, before the recording call returns. A process
// that ends loses no event; a power cut may lose the last ones. A write cut short by the end of the
// process leaves half a line, which readers skip and count. The store's own log is the ground truth
// of commits; see the apiserver's store.Export.
package history

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/podfall/podfall/proto"
)

// Event is one action or observation of a process (docs/dev/guarantees.md).
type Event struct {
	// Sequence numbers the events of one boot of one process from 1, without gaps.
	Sequence uint64
	// Process is the name of the process: apiserver, kubelet/node-1.
	Process string
	Boot    proto.Boot
	// Began and Ended are the machine's monotonic clock in nanoseconds before and after the action;
	// see clock.Monotonic.
	Began, Ended int64
	// Wall is the cluster's time at the end of the action.
	Wall time.Time
	// Cause is the id of the operation that the event belongs to; empty if unknown.
	Cause string
	Fact  Fact
}

// Fact is the content of an event: one of the types in this package.
type Fact interface {
	// Name returns the event's name, as in docs/dev/guarantees.md.
	Name() Name
}

// line is the JSON form of an Event.
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

// MarshalJSON returns the event as one line of a history file.
func (e Event) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

// appendJSON appends the event's JSON to data. It is written by hand because it runs for every
// change of every object.
func (e Event) appendJSON(data []byte) ([]byte, error) {
	fact, err := json.Marshal(e.Fact)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Fact.Name(), err)
	}
	data = append(data, `{"seq":`...)
	data = strconv.AppendUint(data, e.Sequence, 10)
	data = appendField(data, `,"proc":`, e.Process)
	if e.Boot != "" {
		data = appendField(data, `,"boot":`, string(e.Boot))
	}
	data = append(data, `,"t0":`...)
	data = strconv.AppendInt(data, e.Began, 10)
	data = append(data, `,"t1":`...)
	data = strconv.AppendInt(data, e.Ended, 10)
	data = append(data, `,"wall":"`...)
	data = e.Wall.UTC().AppendFormat(data, time.RFC3339Nano)
	data = appendField(data, `","event":`, string(e.Fact.Name()))
	if e.Cause != "" {
		data = appendField(data, `,"cause":`, e.Cause)
	}
	if string(fact) != "null" {
		data = append(append(data, `,"fact":`...), fact...)
	}
	return append(data, '}'), nil
}

// appendField appends a JSON field with an arbitrary text.
func appendField(data []byte, field, text string) []byte {
	data = append(data, field...)
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // strings always encode
			return append(data, quoted...)
		}
	}
	data = append(data, '"')
	data = append(data, text...)
	return append(data, '"')
}

// UnmarshalJSON decodes the output of MarshalJSON. A fact with an unknown name becomes an Other.
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
