package scheduler

import "sync"

// mailbox holds changes of the state until the loop takes them, in the order in which they
// came. Putting one in never blocks.
type mailbox struct {
	wake chan struct{}

	mu      sync.Mutex
	changes []input
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) put(change input) {
	m.mu.Lock()
	m.changes = append(m.changes, change)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest change; nil when there is none.
func (m *mailbox) next() input {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.changes) == 0 {
		return nil
	}
	first := m.changes[0]
	m.changes = m.changes[1:]
	return first
}

// drain carries out what there is.
func (m *mailbox) drain(state *State) {
	for change := m.next(); change != nil; change = m.next() {
		change(state)
	}
}
