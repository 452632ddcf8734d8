// Package mgmt is the management plane: how the processes of a cluster are told what is
// broken on purpose, and how they tell what they do, beside the network that is cut.
//
//	                 mgmt.board ──> Station of every process ──> fault.Table, clock, …
//	board (in bus) ──┤
//	                 mgmt.board.get, mgmt.board.set <── Client: podfall cut, podfall fault, controllers
//
//	Station <── mgmt.inspect.<process> ── Client.Inspect, Client.History
//
// Every process has a connection of its own for it, straight to the hub, which no cut ever
// touches. What a board holds, and how changes make another, is board.go, which is pure;
// services/bus/board keeps it. A cluster in a test has no management plane: it hands the
// same values to its services.
package mgmt

import (
	"time"

	"github.com/podfall/podfall/proto"
)

// Keeper is who keeps the board.
const Keeper = proto.Identity("mgmt:bus")

// AskHistory is the question to which a process answers with a history.Page of what it has
// written down; behind a space it may have the history.Place where the page is to begin, as
// JSON.
const AskHistory = "history"

// AskMetrics is the question to which a process answers with what it has counted, in
// Prometheus' text format; to an empty one it answers with what package inspect has for it.
const AskMetrics = "metrics"

// The paces of the plane, on the wall.
const (
	// Every is how often the board is published when nothing changes.
	Every = 5 * time.Second
	// Term is how long a lease lasts that nobody renews, and a third of it is how often
	// to renew it.
	Term = 6 * time.Second
)

// Answer is what the board's keeper says to a get or a set.
type Answer struct {
	Board *Board `json:"board,omitempty"`
	// Error is why a change was refused; the board is then as it was.
	Error string `json:"error,omitempty"`
	// NotFound says that what was to be changed is not on the board.
	NotFound bool `json:"notFound,omitempty"`
}
