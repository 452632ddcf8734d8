// Package mgmt distributes faults, cuts and clock changes to the processes of a cluster, and lets
// processes answer inspections. It does not use the network that cuts affect.
//
//	                 mgmt.board ──> Agent of every process ──> fault.Table, clock, …
//	state (in bus) ──┤
//	                 mgmt.board.get, mgmt.board.set <── Client: podfall cut, podfall fault, controllers
//
//	Agent <── mgmt.inspect.<process> ── Client.Inspect, Client.History
//
// Every process has a separate management connection straight to the hub, which no cut affects.
// File fault_state.go defines the fault state and its changes, and is pure; services/bus/faultstate
// stores it. A cluster in a test has no management connections: it passes the same values to its
// services directly.
package mgmt

import (
	"time"

	"github.com/podfall/podfall/proto"
)

// Keeper is the identity of the process that holds the fault state.
const Keeper = proto.Identity("mgmt:bus")

// QueryHistory asks a process for a history.Page of its history. A history.Position may follow as
// JSON after a space, to select where the page begins.
const QueryHistory = "history"

// QueryMetrics asks a process for its metrics in Prometheus' text format. The empty query asks for
// its values of package inspect.
const QueryMetrics = "metrics"

// The intervals of management, in wall time.
const (
	// PublishInterval is how often the fault state is published if nothing changes.
	PublishInterval = 5 * time.Second
	// LeaseDuration is how long a lease lasts without renewal. Holders renew after a third of it.
	LeaseDuration = 6 * time.Second
)

// Response is the keeper's answer to a get or a set.
type Response struct {
	Board *FaultState `json:"board,omitempty"`
	// Error is why a change was refused; the state is then unchanged.
	Error string `json:"error,omitempty"`
	// NotFound is set if what is to be changed does not exist.
	NotFound bool `json:"notFound,omitempty"`
}
