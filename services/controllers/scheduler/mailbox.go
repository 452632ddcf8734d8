package scheduler

import "sync"

// mailbox queues changes of the state, in order, until the loop takes them. put never blocks.
type mailbox struct {
	wake chan struct{}

	mu      sync.Mutex
	changes []stateChange
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(change stateChange) {
	m.mu.Lock()
	m.changes = append(m.changes, change)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest change; nil if there is none.
func (m *mailbox) next() stateChange {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.changes) == 0 {
		return nil
	}
	first := m.changes[0]
	m.changes = m.changes[1:]
	return first
}

// drain applies all queued changes.
func (m *mailbox) drain(state *State) {
	for change := m.next(); change != nil; change = m.next() {
		change(state)
	}
}
