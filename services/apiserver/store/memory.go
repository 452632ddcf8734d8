package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Memory is a store without a file and without goroutines, for the deterministic simulator. It
// decides what is written by the same plan as [Store]. A commit can be read at once. The owner
// withholds its effects until it has put an [Image] on its simulated disk, and after a crash makes
// a new Memory from the last such image.
//
// Memory is not safe for concurrent use. It never blocks, except in WaitFor.
type Memory struct {
	state  state
	tree   *tree
	recent []Event
	causes *causes
	keep   int
	// keepNext is how many events the next commit keeps; nil means as keep says.
	keepNext *int
	onCommit func(*Snapshot, []Event)
	snapshot *Snapshot
}

// Image is a state of a Memory with its history. It is immutable.
type Image struct {
	state    state
	snapshot *Snapshot
	recent   []Event
}

// Revision is the revision of the last write in the image; 0 for a nil image.
func (i *Image) Revision() int64 {
	if i == nil {
		return 0
	}
	return i.state.revision
}

// Snapshot returns the state in the image; nil for a nil image.
func (i *Image) Snapshot() *Snapshot {
	if i == nil {
		return nil
	}
	return i.snapshot
}

// NewMemory returns a store with the state of image; nil means empty. It remembers at least keep
// events. onCommit is called with every commit before Commit returns.
func NewMemory(image *Image, keep int, onCommit func(*Snapshot, []Event)) *Memory {
	if image == nil {
		image = &Image{
			state:    state{revision: firstRevision, compacted: firstRevision, swept: firstRevision},
			snapshot: &Snapshot{revision: firstRevision, tree: newTree()},
		}
	}
	m := &Memory{
		state: image.state, tree: image.snapshot.tree.Copy(), keep: keep, onCommit: onCommit, snapshot: image.snapshot,
		recent: slices.Clone(image.recent), causes: &causes{first: map[string]int64{}, more: map[string][]int64{}},
	}
	for _, event := range m.recent {
		m.causes.add(event.Cause, event.Revision)
	}
	return m
}

// Image returns the present state of the store.
func (m *Memory) Image() *Image {
	return &Image{state: m.state, snapshot: m.snapshot, recent: slices.Clip(m.recent)}
}

// Commit is Store.Commit without the wait for the disk.
func (m *Memory) Commit(_ context.Context, commit Commit) ([]Event, error) {
	drafts, err := encodeWrites(commit)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	p := plan{tree: m.tree, state: m.state}
	events, err := p.addCommit(commit.Writes, drafts, commit.Cause)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if len(events) == 0 {
		return nil, nil
	}
	m.state = p.state
	m.snapshot = &Snapshot{revision: m.state.revision, tree: m.tree.Copy()}
	for _, event := range events {
		m.causes.add(event.Cause, event.Revision)
	}
	m.appendRecent(events)
	if m.onCommit != nil {
		m.onCommit(m.snapshot, events)
	}
	return events, nil
}

// appendRecent appends to the history. Once the history is twice as long as it must be, its older
// half is forgotten. Images share the array up to their own length.
func (m *Memory) appendRecent(events []Event) {
	m.recent = append(m.recent, events...)
	keep := m.keep
	switch {
	case m.keepNext != nil:
		keep, m.keepNext = min(*m.keepNext, len(m.recent)), nil
	case len(m.recent) <= 2*m.keep:
		return
	}
	forgotten := m.recent[:len(m.recent)-keep]
	if len(forgotten) == 0 {
		return
	}
	for _, event := range forgotten {
		m.causes.forget(event)
	}
	m.state.compacted = forgotten[len(forgotten)-1].Revision
	m.recent = slices.Clone(m.recent[len(forgotten):])
}

// Compact makes the next commit forget everything except the last keep events, its own included.
// Store.Compact forgets at once.
func (m *Memory) Compact(keep int) { m.keepNext = &keep }

// Snapshot is Store.Snapshot.
func (m *Memory) Snapshot() *Snapshot { return m.snapshot }

// Oldest is Store.Oldest.
func (m *Memory) Oldest() int64 { return m.state.compacted + 1 }

// SinceAtMost is Store.SinceAtMost.
func (m *Memory) SinceAtMost(revision int64, limit int) ([]Event, error) {
	if revision < m.state.compacted {
		return nil, &CompactedError{Revision: revision, Oldest: m.Oldest()}
	}
	first := min(revision-m.state.compacted, int64(len(m.recent)))
	rest := m.recent[first:]
	return rest[:min(limit, len(rest)):min(limit, len(rest))], nil
}

// At is Store.At.
func (m *Memory) At(revision int64) (*Snapshot, error) {
	switch {
	case revision == m.state.revision:
		return m.snapshot, nil
	case revision > m.state.revision:
		return nil, fmt.Errorf("state at revision %d: %w", revision, ErrFuture)
	}
	later, err := m.SinceAtMost(revision, len(m.recent))
	if err != nil {
		return nil, err
	}
	then := plan{tree: m.tree.Copy()}
	then.undo(later)
	return &Snapshot{revision: revision, tree: then.tree}, nil
}

// EventsOfOperation is Store.EventsOfOperation.
func (m *Memory) EventsOfOperation(operation string) ([]Event, error) {
	var events []Event
	for _, revision := range m.causes.revisions(operation) {
		if revision > m.state.compacted {
			events = append(events, m.recent[revision-m.state.compacted-1])
		}
	}
	return events, nil
}

// WaitFor is Store.WaitFor. No commit happens while it waits, so it returns at once or when ctx
// ends.
func (m *Memory) WaitFor(ctx context.Context, revision int64) error {
	if revision <= m.state.revision {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("wait for revision %d: %w", revision, context.Cause(ctx))
}

// WaitingSince is Store.WaitingSince. No commit ever waits, so it returns zero.
func (m *Memory) WaitingSince() time.Time { return time.Time{} }
