package watch

// GroupsForTest is the number of live groups.
func (h *Hub) GroupsForTest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.groups.sorted)
}
