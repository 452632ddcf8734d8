package store

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"
)

// plan computes the events of commits on a state. It is pure except for its tree, which it changes
// as it goes and restores if a commit is refused. The store's writer and [Memory] both use it.
type plan struct {
	tree   *tree
	state  state
	events []Event
	drafts []draft // of events, in the same order
}

// addCommit plans one commit: all of its events, or a *ConflictError and none.
func (p *plan) addCommit(writes []Write, drafts []draft, cause string) ([]Event, error) {
	from, before := len(p.events), p.state
	for i, write := range writes {
		var place btree.PathHint
		have, _ := p.tree.GetHint(&Record{Key: write.Key}, &place)
		if !meetsExpectation(write.Expect, have) {
			p.undo(p.events[from:])
			p.events, p.drafts, p.state = p.events[:from], p.drafts[:from], before
			return nil, &ConflictError{Key: write.Key, Expect: write.Expect, Have: have}
		}
		event, changes := planEvent(write, drafts[i], have, p.state.revision+1)
		if !changes {
			continue
		}
		event.Cause = cause
		p.events = append(p.events, event)
		p.drafts = append(p.drafts, drafts[i])
		p.state.count(event)
		if event.Type == Deleted {
			p.tree.DeleteHint(event.Record, &place)
		} else {
			p.tree.SetHint(event.Record, &place)
		}
	}
	return slices.Clone(p.events[from:]), nil
}

// undo takes events out of the tree again.
func (p *plan) undo(events []Event) {
	for _, event := range slices.Backward(events) {
		if event.Previous == nil {
			p.tree.Delete(event.Record)
		} else {
			p.tree.Set(event.Previous)
		}
	}
}

func meetsExpectation(expect int64, have *Record) bool {
	switch expect {
	case Any, Previous:
		return true
	case Absent:
		return have == nil
	}
	return have != nil && have.Revision == expect
}

// planEvent returns the event by which write changes have; false if write changes nothing.
func planEvent(write Write, d draft, have *Record, revision int64) (Event, bool) {
	switch {
	case write.Object == nil && have == nil:
		return Event{}, false
	case write.Object == nil:
		return Event{Revision: revision, Type: Deleted, Record: tombstone(have, revision), Previous: have}, true
	case have == nil:
		record := newRecord(write.Key, revision, write.Object, d.data)
		return Event{Revision: revision, Type: Added, Record: record}, true
	case bytes.Equal(have.Data, d.data):
		return Event{}, false
	}
	record := newRecord(write.Key, revision, write.Object, d.data)
	return Event{Revision: revision, Type: Modified, Record: record, Previous: have}, true
}
