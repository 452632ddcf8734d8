package watch

import "context"

// Tell publishes what has been committed since it was called last. It is for an owner that
// has no Run going.
func (h *Hub) Tell(ctx context.Context) { h.publish(ctx, h.next()) }

// Beat drops groups that nobody reads, and tells the others the revision. It is for an owner
// that has no Run going.
func (h *Hub) Beat(ctx context.Context) { h.publish(ctx, h.beat()) }
