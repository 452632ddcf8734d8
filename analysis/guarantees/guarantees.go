// Package guarantees checks what podfall promises against what its processes have written
// down: one checker for each property of the guarantees, pure and offline. `podfall
// verify` and the end-to-end tests are its users.
//
//	properties.go    the table: each property's promise, its events, its checker or why it has none
//	past.go          what has happened, as checkers look it up
//	timeline.go      its events by what they tell, and what several checkers ask for
//	objects.go       its objects
//	assume.go        what must be so before anything is checked
//	store.go         A: the store            watch.go        W: watches
//	deletion.go      D: deletion in the API  node.go, attached.go   K: kubelet, runtime and volumes
//	controllers.go   C: controllers          messages.go     N: messages
//	overlaps.go      C1: incarnations        shown.go, anew.go   C2: their windows
//	liveness.go      L: what must happen in the end
//	webhooks.go      A15: webhooks           dependents.go   D11: who depends on whom
//	budgets.go       C9: disruption budgets  jobs.go         C10, C11: Jobs
//
// # No false alarms
//
// A checker can fail on a real violation only. An action lies between its event's Began
// and Ended, and "before" means that one ended before the other began; at equal times
// nothing is known. What the history does not show is not a violation: a property of
// which no case is in the history is not held but not checkable, and says so.
package guarantees

import (
	"fmt"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// Evidence is what a cluster has left behind.
type Evidence struct {
	// Log is what its processes have written down.
	Log history.Log
	// Store is the log of its store's own file (the apiserver's store.Export), the ground
	// truth of commits; nil when the file was not read.
	Store []history.Event
	// Disk is what came of verifying that file; nil when that was not done.
	Disk *Disk
}

// Verdict is what becomes of a property.
type Verdict string

// The verdicts.
const (
	Held         Verdict = "held"
	Broken       Verdict = "broken"
	NotCheckable Verdict = "not checkable"
)

// Result is one property put to the test.
type Result struct {
	Property

	Verdict Verdict
	// Cases is how often the promise was put to the test, and Times how often it was broken.
	Cases, Times int
	// First is the first case in which it was broken; nil for none.
	First *Counterexample
	// Why says why it could not be checked.
	Why string
}

// Err is the error of a property that is broken; nil for any other.
func (r Result) Err() error {
	if r.Verdict != Broken {
		return nil
	}
	return &BrokenError{ID: r.ID, Promise: r.Promise, Counterexample: *r.First}
}

// Counterexample is a case in which a property was broken.
type Counterexample struct {
	// What was found.
	What string
	// Against are the events that show it, in order.
	Against []history.Event
}

// mostLines is how many events a counter-example shows.
const mostLines = 8

// Lines are the counter-example for people: at most ten lines.
func (c Counterexample) Lines() []string {
	lines := []string{c.What}
	for i := range c.Against {
		if i == mostLines {
			return append(lines, fmt.Sprintf("… and %d more", len(c.Against)-mostLines))
		}
		lines = append(lines, tell(&c.Against[i]))
	}
	return lines
}

// tell is an event on one line.
func tell(e *history.Event) string {
	who := e.Process
	if who == "" {
		who = "database"
	}
	cause := ""
	if e.Cause != "" {
		cause = fmt.Sprintf(" cause %.12s", e.Cause)
	}
	fields := strings.TrimPrefix(fmt.Sprintf("%+v", said(e)), "map")
	return fmt.Sprintf("%s %s #%d %s %s%s", e.Wall.UTC().Format("15:04:05.000"), who, e.Sequence, e.Fact.Name(), fields, cause)
}

// BrokenError is a promise that was not kept.
type BrokenError struct {
	ID, Promise string
	Counterexample
}

// Error states the promise.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.ID, e.Promise, strings.Join(e.Lines(), "\n"))
}

// Check puts every property to the test. An error says that the evidence proves nothing:
// that nothing has happened, or that events are missing.
func Check(evidence Evidence) ([]Result, error) {
	p := newPast(evidence)
	if err := p.assume(); err != nil {
		return nil, err
	}
	properties := Properties()
	results := make([]Result, 0, len(properties))
	for _, property := range properties {
		results = append(results, property.try(p))
	}
	return results, nil
}

// try puts one property to the test.
func (p Property) try(past *past) Result {
	r := Result{Property: p, Verdict: NotCheckable, Why: p.Unchecked}
	if p.check == nil {
		return r
	}
	t := trial{}
	p.check(past, &t)
	r.Cases, r.Times, r.First = t.cases, t.times, t.first
	switch {
	case t.first != nil:
		r.Verdict = Broken
	case t.cases > 0:
		r.Verdict = Held
	default:
		r.Why = "the history has no case of it"
	}
	return r
}

// trial is one property being put to the test.
type trial struct {
	cases, times int
	first        *Counterexample
}

// expect counts a case. One in which the promise does not hold is a counter-example: what
// was found, and the events that show it.
func (t *trial) expect(holds bool, what string, against ...*history.Event) { //nolint:revive // what is checked, and no switch
	t.cases++
	if holds {
		return
	}
	t.times++
	if t.first != nil {
		return
	}
	t.first = &Counterexample{What: what}
	for _, e := range against {
		if e != nil {
			t.first.Against = append(t.first.Against, *e)
		}
	}
}
