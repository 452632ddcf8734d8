package watch

import "context"

// PublishPending publishes the commits since the last call. It is for an owner that does not call
// Run.
func (h *Hub) PublishPending(ctx context.Context) { h.publish(ctx, h.nextFrames()) }

// PublishHeartbeats drops groups without readers, and sends the others the revision. It is for an
// owner that does not call Run.
func (h *Hub) PublishHeartbeats(ctx context.Context) { h.publish(ctx, h.heartbeatFrames()) }
