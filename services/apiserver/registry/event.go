package registry

// eventStrategy is the strategy of Events.
type eventStrategy struct{ generic }
