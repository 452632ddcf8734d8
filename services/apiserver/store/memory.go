package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Memory is a store without a file and without goroutines, for whoever plays the disk: the
// deterministic simulator. It decides what is written by the same plan as [Store]. What it
// commits can be read at once; its owner keeps to itself what comes of that until it has put
// an [Image] on its disk, and makes a new Memory of the last such image after a crash.
//
// It is not safe for concurrent use, and it never waits, but for the end of WaitFor's
// context.
type Memory struct {
	state  state
	tree   *tree
	recent []Event
	causes *causes
	keep   int
	// asked is how much the next commit keeps; nil for what keep says.
	asked    *int
	onCommit func(*Snapshot, []Event)
	snapshot *Snapshot
}

// Image is a state of a Memory with its history. It is immutable.
type Image struct {
	state    state
	snapshot *Snapshot
	recent   []Event
}

// Revision is the last write in the image; 0 for none.
func (i *Image) Revision() int64 {
	if i == nil {
		return 0
	}
	return i.state.revision
}

// Snapshot is what the image holds; nil for none.
func (i *Image) Snapshot() *Snapshot {
	if i == nil {
		return nil
	}
	return i.snapshot
}

// NewMemory is the store that an image holds; nil is an empty one. It remembers at least
// keep events. onCommit is told of every commit before Commit returns.
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

// Image is the store as it is.
func (m *Memory) Image() *Image {
	return &Image{state: m.state, snapshot: m.snapshot, recent: slices.Clip(m.recent)}
}

// Commit is Store.Commit, without its wait for the disk.
func (m *Memory) Commit(_ context.Context, commit Commit) ([]Event, error) {
	drafts, err := prepare(commit)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	p := plan{tree: m.tree, state: m.state}
	events, err := p.add(commit.Writes, drafts, commit.Cause)
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
	m.remember(events)
	if m.onCommit != nil {
		m.onCommit(m.snapshot, events)
	}
	return events, nil
}

// remember appends to the history, and forgets its older half when it has become twice as
// long as it must be. Images share the array up to their own length.
func (m *Memory) remember(events []Event) {
	m.recent = append(m.recent, events...)
	keep := m.keep
	switch {
	case m.asked != nil:
		keep, m.asked = min(*m.asked, len(m.recent)), nil
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

// Compact has the next commit forget everything but the last keep events, its own among
// them. Store.Compact does so at once.
func (m *Memory) Compact(keep int) { m.asked = &keep }

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

// CauseOf is Store.CauseOf.
func (m *Memory) CauseOf(operation string) ([]Event, error) {
	var events []Event
	for _, revision := range m.causes.of(operation) {
		if revision > m.state.compacted {
			events = append(events, m.recent[revision-m.state.compacted-1])
		}
	}
	return events, nil
}

// WaitFor is Store.WaitFor: nobody commits while it waits.
func (m *Memory) WaitFor(ctx context.Context, revision int64) error {
	if revision <= m.state.revision {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("wait for revision %d: %w", revision, context.Cause(ctx))
}

// Writing is Store.Writing: no commit waits.
func (m *Memory) Writing() time.Time { return time.Time{} }
