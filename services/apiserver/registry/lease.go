package registry

// leaseStrategy is the strategy of Leases.
type leaseStrategy struct{ generic }
