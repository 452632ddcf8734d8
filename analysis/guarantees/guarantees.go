// Package guarantees checks podfall's invariants against the histories that its processes record.
// Each invariant has one checker. Checkers are pure functions and work offline. `podfall verify`
// and the end-to-end tests use them.
//
//	invariants.go    the table: each invariant's statement, its events, and its checker or why it has none
//	history.go       the recorded history, indexed for the checkers
//	events.go        its events by fact type, and results that several checkers share
//	objects.go       its objects
//	assume.go        what must hold before anything is checked
//	store.go         A: the store            watch.go        W: watches
//	deletion.go      D: deletion in the API  node.go, volumes.go    K: kubelet, runtime and volumes
//	controllers.go   C: controllers          messages.go     N: messages
//	overlaps.go      C1: incarnations        windows.go, restart.go   C2: their split-brain windows
//	liveness.go      L: what must happen in the end
//	webhooks.go      A15: webhooks           dependents.go   D11: owners and dependents
//	budgets.go       C9: disruption budgets  jobs.go         C10, C11: Jobs
//
// # No false alarms
//
// A checker fails only on a real violation. An action happens between its event's Began and Ended.
// Event a is before event b if a ended before b began; at equal times the order is unknown. What
// the history does not show is not a violation. If a history has no case of an invariant, the
// verdict is "not checkable", with the reason.
package guarantees

import (
	"fmt"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// Evidence holds the records that a cluster leaves behind.
type Evidence struct {
	// Log holds the events that the processes recorded.
	Log history.Log
	// Store holds the log of the store's own file (the apiserver's store.Export), the ground truth
	// of commits; nil if the file was not read.
	Store []history.Event
	// Disk holds the result of verifying the store's file; nil if it was not verified.
	Disk *Disk
}

// Verdict is the result of checking an invariant.
type Verdict string

// The verdicts.
const (
	Held         Verdict = "held"
	Violated     Verdict = "broken"
	NotCheckable Verdict = "not checkable"
)

// Result is the outcome of checking one invariant.
type Result struct {
	Invariant

	Verdict Verdict
	// Cases counts how often the invariant was checked, and Violations how often it did not hold.
	Cases, Violations int
	// First is the first violation; nil if there was none.
	First *Counterexample
	// Why says why the invariant could not be checked.
	Why string
}

// Err returns a ViolationError if the invariant is violated, and nil otherwise.
func (r Result) Err() error {
	if r.Verdict != Violated {
		return nil
	}
	return &ViolationError{ID: r.ID, Promise: r.Statement, Counterexample: *r.First}
}

// Counterexample is a case in which an invariant did not hold.
type Counterexample struct {
	// What says what was found.
	What string
	// Events show the violation, in order.
	Events []history.Event
}

// maxEventLines limits the events that a counter-example shows.
const maxEventLines = 8

// Lines returns the counter-example as readable text of at most ten lines.
func (c Counterexample) Lines() []string {
	lines := []string{c.What}
	for i := range c.Events {
		if i == maxEventLines {
			return append(lines, fmt.Sprintf("… and %d more", len(c.Events)-maxEventLines))
		}
		lines = append(lines, formatEvent(&c.Events[i]))
	}
	return lines
}

// formatEvent returns an event as one line of text.
func formatEvent(e *history.Event) string {
	who := e.Process
	if who == "" {
		who = "database"
	}
	cause := ""
	if e.Cause != "" {
		cause = fmt.Sprintf(" cause %.12s", e.Cause)
	}
	fields := strings.TrimPrefix(fmt.Sprintf("%+v", fieldsOf(e)), "map")
	return fmt.Sprintf("%s %s #%d %s %s%s", e.Wall.UTC().Format("15:04:05.000"), who, e.Sequence, e.Fact.Name(), fields, cause)
}

// ViolationError reports an invariant that did not hold.
type ViolationError struct {
	ID, Promise string
	Counterexample
}

// Error returns the id, the invariant and the counter-example.
func (e *ViolationError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.ID, e.Promise, strings.Join(e.Lines(), "\n"))
}

// Check checks every invariant. An error says that the evidence proves nothing: either nothing has
// happened, or events are missing.
func Check(evidence Evidence) ([]Result, error) {
	h := newClusterHistory(evidence)
	if err := h.assumeSound(); err != nil {
		return nil, err
	}
	properties := Invariants()
	results := make([]Result, 0, len(properties))
	for _, property := range properties {
		results = append(results, property.verify(h))
	}
	return results, nil
}

// verify checks one invariant.
func (p Invariant) verify(h *clusterHistory) Result {
	r := Result{Invariant: p, Verdict: NotCheckable, Why: p.Unchecked}
	if p.check == nil {
		return r
	}
	t := tally{}
	p.check(h, &t)
	r.Cases, r.Violations, r.First = t.cases, t.times, t.first
	switch {
	case t.first != nil:
		r.Verdict = Violated
	case t.cases > 0:
		r.Verdict = Held
	default:
		r.Why = "the history has no case of it"
	}
	return r
}

// tally counts the cases and violations of one invariant while it is checked.
type tally struct {
	cases, times int
	first        *Counterexample
}

// expect counts a case. If the invariant does not hold, the case becomes the counter-example: what
// was found, and the events that show it.
func (t *tally) expect(holds bool, what string, events ...*history.Event) { //nolint:revive // the result of a check, not a switch
	t.cases++
	if holds {
		return
	}
	t.times++
	if t.first != nil {
		return
	}
	t.first = &Counterexample{What: what}
	for _, e := range events {
		if e != nil {
			t.first.Events = append(t.first.Events, *e)
		}
	}
}
